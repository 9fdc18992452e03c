//! The faces that the body of an enrollment or of a search names, with their vectors.

use facescan_audit::AuditEvent;
use facescan_config::scope::Scope;
use facescan_pipeline::{
    context::RequestContext,
    core::{error::PipelineError, scan::Scan},
    ingest::source::ImageInput,
};
use facescan_recognition::{
    error::RecognitionError,
    verify::{FaceVector, VerifyPlan, VerifyRequest},
};
use facescan_store::StoredFace;
use uuid::Uuid;

use super::run::PlanRun;
use crate::{
    access::{authenticator::require, error::AccessError},
    http::{AppState, error::ApiError, extract::face_input::FaceInput},
};

/// A face of a request.
pub(super) enum NamedFace {
    /// The result of an image.
    Scanned(Box<Result<Scan, PipelineError>>),
    /// A vector of the caller, or that of the stored face with this id.
    Known(FaceVector, Option<Uuid>),
}

/// Reads the faces of a request.
pub(super) struct NamedFaces<'a> {
    state: &'a AppState,
    context: &'a RequestContext,
    /// How images are scanned.
    pub plan: VerifyPlan,
    /// The name of the request in the audit trail.
    action: &'static str,
}

impl<'a> NamedFaces<'a> {
    /// Resolves the options of images. `action` is the name of the request in the audit trail.
    pub fn new(
        state: &'a AppState,
        context: &'a RequestContext,
        options: VerifyRequest,
        action: &'static str,
    ) -> Result<Self, ApiError> {
        let thresholds = &state.pipeline.models.detector.spec.thresholds;
        Ok(Self {
            state,
            context,
            plan: options.resolve(&state.config, thresholds)?,
            action,
        })
    }

    /// Returns the faces in order. Reads stored faces before it runs a model.
    pub async fn read(&self, faces: Vec<FaceInput>) -> Result<Vec<NamedFace>, ApiError> {
        self.check_scopes(&faces)?;
        let mut named = Vec::with_capacity(faces.len());
        let (mut places, mut images) = (Vec::new(), Vec::new());
        for (place, face) in faces.into_iter().enumerate() {
            named.push(match face {
                FaceInput::Image(image) => {
                    places.push(place);
                    images.push(image);
                    None
                }
                FaceInput::Stored(id) => Some(self.stored(id).await?),
                FaceInput::Vector(vector) => Some(NamedFace::Known(vector, None)),
            });
        }
        for (place, scan) in places.into_iter().zip(self.scan(images).await?) {
            named[place] = Some(NamedFace::Scanned(Box::new(scan)));
        }
        Ok(named.into_iter().flatten().collect())
    }

    async fn scan(
        &self,
        images: Vec<ImageInput>,
    ) -> Result<Vec<Result<Scan, PipelineError>>, ApiError> {
        if images.is_empty() {
            return Ok(Vec::new());
        }
        let run = PlanRun {
            state: self.state,
            context: self.context,
            plan: self.plan.scan.clone(),
        };
        let outcomes = run.outcomes(images, self.action).await?;
        let scans = outcomes.into_iter().map(|outcome| outcome.output);
        Ok(scans.map(|output| output.map(|run| run.result)).collect())
    }

    /// Checks that the caller may name faces in these ways.
    ///
    /// A similarity tells something about the vector of a stored face, so naming one needs the scope that reading needs. Who
    /// chooses the vector, or the very pixels that the embedder gets, can measure enrolled vectors component by component.
    fn check_scopes(&self, faces: &[FaceInput]) -> Result<(), AccessError> {
        for face in faces {
            match face {
                FaceInput::Stored(_) => require(&self.context.principal, Scope::Read)?,
                FaceInput::Vector(_) => require(&self.context.principal, Scope::SearchVectors)?,
                FaceInput::Image(_) if self.plan.scan.aligned => {
                    require(&self.context.principal, Scope::SearchVectors)?;
                }
                FaceInput::Image(_) => {}
            }
        }
        Ok(())
    }

    async fn stored(&self, id: Uuid) -> Result<NamedFace, ApiError> {
        let event = AuditEvent::read("use_face", id);
        self.state.audit.record(self.context, event).await?;
        let tenant = &self.context.principal.tenant;
        let face: Option<StoredFace> = self.state.store.face(tenant, id).await?;
        let face = face.ok_or(RecognitionError::NotFound(id))?;
        // Only an aligned crop has no score: the caller who stored it has chosen its pixels.
        if face.score.is_none() {
            require(&self.context.principal, Scope::SearchVectors)?;
        }
        Ok(NamedFace::Known(FaceVector::of_stored(&face)?, Some(id)))
    }
}
