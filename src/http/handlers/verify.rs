//! `POST /verify`.

use facescan_audit::AuditEvent;
use facescan_config::scope::Scope;
use facescan_imaging::precision::NumericPrecision;
use facescan_inference::device::DeviceState;
use facescan_pipeline::{
    context::RequestContext,
    core::{
        image_file::ImageInfo,
        run::DevicesUsed,
        scan::{Face, FaceResults, Scan},
    },
    ingest::source::ImageInput,
    models::ModelsUsed,
    operation::Operation,
    plan::Plan as _,
    runner::ImageOutcome,
};
use facescan_recognition::{
    calibration::FarEstimate,
    error::RecognitionError,
    verify::{FaceVector, Side, VerifyPlan, VerifyRequest, compare},
};
use facescan_store::StoredFace;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::run::PlanRun;
use crate::{
    access::authenticator::require,
    http::{
        AppState,
        error::ApiError,
        extract::{api_request::ApiRequest, face_input::FaceInput, pair::PairRequest},
        openapi::{
            bodies::{VerifyBody, VerifyForm},
            failures::VerifyFailures,
        },
        respond::negotiated::Negotiated,
    },
};

/// Whether two faces match.
#[derive(Debug, Serialize, ToSchema)]
pub struct VerifyResponse {
    /// The id of the request, as in the `x-request-id` header and in the log.
    request_id: String,
    /// Always `verify`.
    #[schema(example = "verify")]
    operation: &'static str,
    /// Whether the similarity is at least the threshold.
    #[serde(rename = "match")]
    is_match: bool,
    /// The cosine of the vectors, -1 to 1.
    similarity: f32,
    /// The cosine from which the faces match.
    threshold: f32,
    /// The false accept rate at the threshold. Null if the embedder has no calibration.
    #[schema(required)]
    far: Option<FarEstimate>,
    /// The vector space of both vectors.
    vector_space: String,
    /// The models that made the vectors of the images. Empty if no image was sent.
    models: ModelsUsed,
    /// The device of each operation.
    #[schema(value_type = BTreeMap<String, DeviceState>)]
    devices: DevicesUsed,
    /// The first face.
    a: ComparedFace,
    /// The second face.
    b: ComparedFace,
}

/// A face that was compared. A vector of the caller has none of these fields.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ComparedFace {
    /// The properties of the image, if one was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<ImageInfo>,
    /// The number of faces in the image; 16 means 16 or more. One of them was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    faces_found: Option<usize>,
    /// The id of the stored face.
    #[serde(skip_serializing_if = "Option::is_none")]
    face_id: Option<Uuid>,
    /// `[x1, y1, x2, y2]` in pixels of the upright image, clipped to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 4, max_items = 4)]
    bbox: Option<[f32; 4]>,
    /// The detection score, 0 to 1. Absent for aligned crops, which need no detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
    /// Five points: the eye at the image's left, the other eye, the nose, the mouth corner at the left, the other
    /// corner.
    #[serde(skip_serializing_if = "Option::is_none")]
    landmarks: Option<[[f32; 2]; 5]>,
    /// The results without a vector. A stored face has those that were computed when it was stored.
    #[serde(flatten)]
    results: FaceResults,
    /// The length of the vector before normalization.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_norm: Option<f32>,
    /// The precision that the model used for the vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    precision: Option<NumericPrecision>,
}

/// A face with its vector.
struct Resolved {
    vector: FaceVector,
    face: ComparedFace,
}

/// Compares two faces.
///
/// Each is in an image, stored, or a vector. A stored face also needs the scope `read`. Nothing is stored.
#[utoipa::path(
    post, path = "/verify", operation_id = "verify_faces", tag = "recognition", params(VerifyRequest),
    request_body(content(
        (VerifyBody = "application/json"), (VerifyBody = "application/msgpack"), (VerifyForm = "multipart/form-data")
    )),
    responses(VerifyFailures)
)]
pub async fn verify(
    api: ApiRequest,
    request: PairRequest,
) -> Result<Negotiated<VerifyResponse>, ApiError> {
    let (state, context) = (&api.state, &request.context);
    let thresholds = &state.pipeline.models.detector.spec.thresholds;
    let plan = &request.options.resolve(&state.config, thresholds)?;
    let run = VerifyRun {
        state,
        context,
        plan,
    };
    let ([a, b], devices) = run.resolve(request.content).await?;
    let compared = compare(&a.vector, &b.vector, plan.criterion, &state.calibrations)?;
    let tasks = plan.scan.tasks();
    let models = if devices.is_empty() {
        ModelsUsed::default()
    } else {
        state.pipeline.models.used(&tasks)
    };
    let response = VerifyResponse {
        request_id: context.id.to_string(),
        operation: Operation::Verify.name(),
        is_match: compared.is_match,
        similarity: compared.similarity,
        threshold: compared.threshold,
        far: compared.far,
        vector_space: compared.vector_space,
        models,
        devices,
        a: a.face,
        b: b.face,
    };
    api.small(&response)
}

/// A verification, and the request that it runs for.
struct VerifyRun<'a> {
    state: &'a AppState,
    context: &'a RequestContext,
    plan: &'a VerifyPlan,
}

impl VerifyRun<'_> {
    /// Returns both faces with their vectors, and the devices that made the vectors of images. Reads stored faces before it runs
    /// a model.
    async fn resolve(
        &self,
        faces: [FaceInput; 2],
    ) -> Result<([Resolved; 2], DevicesUsed), ApiError> {
        self.record_reads(&faces).await?;
        let mut images = Vec::new();
        let mut resolved = [None, None];
        for (side, face) in Side::BOTH.into_iter().zip(faces) {
            resolved[side as usize] = match face {
                FaceInput::Image(image) => {
                    images.push((side, image));
                    None
                }
                FaceInput::Stored(id) => Some(self.stored(id).await?),
                FaceInput::Vector(vector) => Some(Resolved {
                    vector,
                    face: ComparedFace::default(),
                }),
            };
        }
        let (sides, images): (Vec<Side>, Vec<ImageInput>) = images.into_iter().unzip();
        let mut outcomes = Vec::new();
        if !images.is_empty() {
            let run = PlanRun {
                state: self.state,
                context: self.context,
                plan: self.plan.scan.clone(),
            };
            outcomes = run.outcomes(images, Operation::Verify.name()).await?;
        }
        let mut devices = DevicesUsed::new();
        for (side, outcome) in sides.into_iter().zip(outcomes) {
            resolved[side as usize] = Some(self.found(side, outcome, &mut devices)?);
        }
        match resolved {
            [Some(a), Some(b)] => Ok(([a, b], devices)),
            _ => Err(ApiError::Internal("a face is missing".to_owned())),
        }
    }

    async fn stored(&self, id: Uuid) -> Result<Resolved, ApiError> {
        let tenant = &self.context.principal.tenant;
        let face = self.state.store.face(tenant, id).await?;
        let face = face.ok_or(RecognitionError::NotFound(id))?;
        Ok(Resolved {
            vector: FaceVector::of_stored(&face)?,
            face: ComparedFace::from_stored(face),
        })
    }

    /// Checks that the caller may read stored faces, and records which are read.
    ///
    /// A similarity tells something about a stored vector: enough comparisons tell all of it. So they need the scope that
    /// reading needs.
    async fn record_reads(&self, faces: &[FaceInput; 2]) -> Result<(), ApiError> {
        for face in faces {
            if let FaceInput::Stored(id) = face {
                require(&self.context.principal, Scope::Read)?;
                let event = AuditEvent::read("verify_face", id);
                self.state.audit.record(self.context, event).await?;
            }
        }
        Ok(())
    }

    /// Returns the chosen face of an image. Adds the devices of its run to `devices`.
    fn found(
        &self,
        side: Side,
        outcome: ImageOutcome<Scan>,
        devices: &mut DevicesUsed,
    ) -> Result<Resolved, ApiError> {
        let output = outcome
            .output
            .map_err(|source| RecognitionError::Image { side, source })?;
        for (operation, used) in output.run.devices {
            if used.fell_back() || !devices.contains_key(&operation) {
                devices.insert(operation, used);
            }
        }
        let scan = output.result;
        let (image, faces_found) = (scan.image.clone(), scan.faces.len());
        let vector_space = &self.state.pipeline.models.embedder.vector_space;
        let resolved = self.plan.face.choose(scan).and_then(|face| {
            Some(Resolved {
                vector: FaceVector::of_found(vector_space, &face)?,
                face: ComparedFace {
                    image: Some(image),
                    faces_found: Some(faces_found),
                    ..ComparedFace::from_found(&face)
                },
            })
        });
        Ok(resolved.ok_or(RecognitionError::NoFace(side))?)
    }
}

impl ComparedFace {
    fn from_found(face: &Face) -> Self {
        let embedding = face.embedding.as_ref();
        Self {
            bbox: Some(face.bbox.to_array()),
            score: face.score,
            landmarks: face.landmarks,
            results: face.results.clone(),
            embedding_norm: embedding.map(|embedding| embedding.norm),
            precision: embedding.and_then(|embedding| embedding.precision),
            ..Self::default()
        }
    }

    fn from_stored(face: StoredFace) -> Self {
        let embedding = face.embedding.as_ref();
        let results = face.results.map(serde_json::from_value);
        Self {
            face_id: Some(face.id),
            bbox: Some(face.bbox.to_array()),
            score: face.score,
            landmarks: face.landmarks,
            // Results of a newer version of the program may have another form.
            results: results.and_then(Result::ok).unwrap_or_default(),
            embedding_norm: embedding.map(|embedding| embedding.norm),
            precision: embedding.map(|embedding| embedding.precision),
            ..Self::default()
        }
    }
}
