//! `/collections/{id}/subjects/{subject}/enrollments` and `/collections/{id}/enrollments/{enrollment}`.

use facescan_config::scope::Scope;
use facescan_imaging::quality::acceptance::Reason;
use facescan_pipeline::{
    core::scan::{Face, Scan},
    results::ErrorEntry,
};
use facescan_recognition::{
    collections::{
        enroll::{EnrollOutcome, EnrollTarget, FaceToEnroll, Rejection},
        key,
    },
    error::RecognitionError,
    verify::FaceVector,
};
use facescan_store::{Collection, Enrollment, ErasureTarget};
use serde::Serialize;
use serde_json::json;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    erasures::erase_from_collection,
    named_faces::{NamedFace, NamedFaces},
    page::{Cursor, PageQuery},
};
use crate::http::{
    error::ApiError,
    extract::{
        collection_request::CollectionRequest, enrollment_options::EnrollRequest,
        faces::FacesRequest,
    },
    openapi::{
        bodies::EnrollBody,
        failures::{EnrollFailures, EraseFailures, StoredFailures},
    },
    respond::{
        negotiated::{Deletion, Negotiated},
        page::{Listed, Page},
    },
};

/// What became of the faces of a request.
#[derive(Debug, Serialize, ToSchema)]
pub struct EnrollResponse {
    /// The id of the request, as in the `x-request-id` header and in the log.
    request_id: String,
    /// One entry for each face, in the order of the request.
    results: Vec<EnrolledFace>,
}

/// What became of a face.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct EnrolledFace {
    /// Whether it is enrolled.
    status: EnrollmentStatus,
    /// The id of the enrolled face.
    #[serde(skip_serializing_if = "Option::is_none")]
    enrollment_id: Option<Uuid>,
    /// Why it is not enrolled: `no_face`, `several_faces`, `low_quality`, `vector_space_mismatch`, `conflict`, `suppressed` or
    /// `image`. Keys without the scope `search` get `conflict` also for `suppressed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// `several_faces`: the number of faces in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    faces: Option<usize>,
    /// `low_quality`: the measures that are out of range, as in `reasons` of a scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    quality: Option<Vec<Reason>>,
    /// `conflict`: the subject with a similar face. Only for keys with the scope `search`.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject_id: Option<Uuid>,
    /// `conflict`: the cosine, rounded down to hundredths. Only for keys with the scope `search`.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f32>,
    /// `image`: the error of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorEntry>,
}

/// Whether a face is enrolled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnrollmentStatus {
    /// It is enrolled.
    Enrolled,
    /// It is not enrolled.
    #[default]
    Rejected,
}

impl Listed for EnrollmentResponse {
    const DESCRIPTION: &'static str = "A page of the enrolled faces of a subject, oldest first.";
}

/// An enrolled face. No response has its vector.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Enrollment)]
pub struct EnrollmentResponse {
    /// The id.
    id: Uuid,
    /// The stored face that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    face_id: Option<Uuid>,
    /// When it was enrolled.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
}

impl From<Enrollment> for EnrollmentResponse {
    fn from(enrollment: Enrollment) -> Self {
        Self {
            id: enrollment.id,
            face_id: enrollment.face_id,
            created_at: enrollment.created_at,
        }
    }
}

impl EnrolledFace {
    fn new(outcome: EnrollOutcome) -> Self {
        let rejection = match outcome {
            Ok(id) => {
                return Self {
                    status: EnrollmentStatus::Enrolled,
                    enrollment_id: Some(id),
                    ..Self::default()
                };
            }
            Err(rejection) => rejection,
        };
        let mut face = Self {
            reason: Some(rejection.name()),
            ..Self::default()
        };
        match rejection {
            Rejection::SeveralFaces { faces } => face.faces = Some(faces),
            Rejection::LowQuality { reasons } => face.quality = Some(reasons),
            Rejection::Conflict {
                subject_id,
                similarity,
            } => {
                face.subject_id = Some(subject_id);
                face.similarity = Some(similarity);
            }
            Rejection::Image(error) => face.error = Some(error),
            Rejection::NoFace
            | Rejection::VectorSpaceMismatch
            | Rejection::Suppressed
            | Rejection::Hidden => {}
        }
        face
    }
}

/// Enrolls faces of a subject.
///
/// Each face is in an image, stored, or a vector. A stored face also needs the scope `read`, and a vector or an aligned crop
/// the scope `search_vectors`. Among several faces, one that is not good enough is rejected, and the others are enrolled. The
/// rejection of the only face is the error of the request. Each face that is compared with other people counts as a search of
/// the key. Images are not stored.
#[utoipa::path(
    post, path = "/collections/{id}/subjects/{subject}/enrollments", operation_id = "enroll_faces", tag = "recognition",
    security(("key" = ["enroll"])),
    params(
        ("id" = Uuid, Path, description = "The id of the collection"),
        ("subject" = Uuid, Path, description = "The id of the subject"),
        EnrollRequest,
    ),
    request_body = EnrollBody,
    responses(EnrollFailures)
)]
pub async fn enroll(
    request: CollectionRequest,
    body: Result<FacesRequest<EnrollRequest>, ApiError>,
) -> Result<Negotiated<EnrollResponse>, ApiError> {
    let collection = request.collection().await?;
    let subject = request.member()?;
    let state = &request.state;
    let target = EnrollTarget {
        collection: &collection,
        subject,
        allow_conflicts: false,
    };
    // Before any image is processed.
    state.collections.check_target(target).await?;
    let body = body?;
    let (context, options) = (&body.context, &body.options);
    let named = NamedFaces::new(state, context, options.scan_options(), "enroll")?;
    let vector_space = &state.pipeline.models.embedder.vector_space;
    let faces = named.read(body.content).await?;
    let faces = faces
        .into_iter()
        .map(|face| options.judge(vector_space, face));
    let target = EnrollTarget {
        allow_conflicts: options.allow_conflicts.unwrap_or(false),
        ..target
    };
    let may_search = context.principal.scopes.contains(&Scope::Search);
    let outcomes = state.collections.enroll(context, target, faces.collect());
    let mut outcomes: Vec<_> = outcomes
        .await?
        .into_iter()
        .map(|outcome| outcome.map_err(|rejection| rejection.shown(may_search)))
        .collect();
    // As for an image: what is wrong with the only one is wrong with the request.
    if let [Err(_)] = outcomes.as_slice()
        && let Some(Err(rejection)) = outcomes.pop()
    {
        return Err(RecognitionError::Rejected(rejection).into());
    }
    let response = EnrollResponse {
        request_id: context.id.to_string(),
        results: outcomes.into_iter().map(EnrolledFace::new).collect(),
    };
    request.small(&response)
}

impl EnrollRequest {
    /// Returns the vector of a face, or why it is not good enough.
    fn judge(&self, vector_space: &str, face: NamedFace) -> Result<FaceToEnroll, Rejection> {
        let (vector, face_id) = match face {
            NamedFace::Known(vector, face_id) => (vector, face_id),
            NamedFace::Scanned(scan) => {
                let refused =
                    |error| Rejection::Image(ErrorEntry::from(&ApiError::Pipeline(error)));
                let scan = (*scan).map_err(refused)?;
                (self.vector_of(vector_space, scan)?, None)
            }
        };
        Ok(FaceToEnroll { vector, face_id })
    }

    fn vector_of(&self, vector_space: &str, scan: Scan) -> Result<FaceVector, Rejection> {
        let faces = scan.faces.len();
        if faces > 1 && self.face.is_none() {
            return Err(Rejection::SeveralFaces { faces });
        }
        let face = self.face.unwrap_or_default().choose(scan);
        let face = face.ok_or(Rejection::NoFace)?;
        if !self.allow_low_quality.unwrap_or(false) {
            check_quality(&face)?;
        }
        FaceVector::of_found(vector_space, &face).ok_or(Rejection::NoFace)
    }
}

fn check_quality(face: &Face) -> Result<(), Rejection> {
    match &face.results.quality {
        Some(quality) if !quality.acceptable => Err(Rejection::LowQuality {
            reasons: quality.reasons.clone(),
        }),
        _ => Ok(()),
    }
}

/// Lists the enrolled faces of a subject.
#[utoipa::path(
    get, path = "/collections/{id}/subjects/{subject}/enrollments", operation_id = "list_enrollments", tag = "recognition",
    security(("key" = ["enroll"])),
    params(
        ("id" = Uuid, Path, description = "The id of the collection"),
        ("subject" = Uuid, Path, description = "The id of the subject"),
        PageQuery,
    ),
    responses(StoredFailures)
)]
pub async fn list(
    request: CollectionRequest,
) -> Result<Negotiated<Page<EnrollmentResponse>>, ApiError> {
    let collection = request.collection().await?;
    let subject = request.member()?;
    let store = &request.state.collections.store;
    let found = store.subject(key(&collection), subject).await?;
    found.ok_or(RecognitionError::NoSubject(subject))?;
    let cursor = Cursor::read(&request)?;
    let details = json!({"collection": collection.id, "after": cursor.after});
    request
        .record_read("list_enrollments", subject, details)
        .await?;
    cursor.check_face(&request.state, &collection).await?;
    let listed = store
        .list_enrollments(key(&collection), subject, cursor.wanted())
        .await?;
    let page = cursor.page(listed, |face| face.id, EnrollmentResponse::from);
    request.small(&page)
}

/// Erases an enrolled face.
#[utoipa::path(
    delete, path = "/collections/{id}/enrollments/{enrollment}", operation_id = "erase_enrollment", tag = "recognition",
    security(("key" = ["erase"])),
    params(
        ("id" = Uuid, Path, description = "The id of the collection"),
        ("enrollment" = Uuid, Path, description = "The id of the enrolled face"),
    ),
    responses(EraseFailures)
)]
pub async fn erase(request: CollectionRequest) -> Result<Deletion, ApiError> {
    let collection: Collection = request.collection().await?;
    let id = request.member()?;
    let store = &request.state.collections.store;
    let enrollment = store.enrollment(key(&collection), id).await?;
    enrollment.ok_or(RecognitionError::NoEnrollment(id))?;
    erase_from_collection(&request, ErasureTarget::Enrollment(id)).await
}
