//! Whether the best face is still the same person after enhancement.

use std::sync::Arc;

use image::RgbImage;

use super::{Identity, IdentityCheck};
use crate::{
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::Timings,
        detect::{DetectedFace, Pixels},
        embed::{Embedding, cosine},
        options::DetectOptions,
        scan::millis,
    },
};
use facescan_imaging::warp::align_face;
use facescan_inference::operation::Operation;

impl Pipeline {
    pub(super) async fn compare(
        &self,
        before: &Arc<PooledImage>,
        after: &Arc<RgbImage>,
        check: &IdentityCheck,
        timings: &mut Timings,
    ) -> Result<Identity, PipelineError> {
        let began = self.clock.monotonic();
        // Which face is the best one is decided before; after, it is the face in the same place.
        let by_score = |a: &DetectedFace, b: &DetectedFace| a.score.total_cmp(&b.score);
        let strict = check.strict_device;
        let found = self.faces_of(before, &check.detect, strict).await?;
        let first = found.into_iter().max_by(by_score);
        let scale = after.width() as f32 / before.width() as f32;
        let scaled = DetectOptions {
            min_face_size: check.detect.min_face_size * scale,
            ..check.detect.clone()
        };
        let second = match &first {
            Some(first) => {
                let place = first.bbox.scaled(scale);
                let overlap = |face: &DetectedFace| face.bbox.iou(&place);
                let found = self.faces_of(after, &scaled, strict).await?;
                found
                    .into_iter()
                    .filter(|face| overlap(face) > 0.0)
                    .max_by(|a, b| overlap(a).total_cmp(&overlap(b)))
            }
            None => None,
        };
        timings.detect = millis(self.clock.monotonic().saturating_sub(began));
        let embedding = self.clock.monotonic();
        let cosine = match (&first, &second) {
            (Some(first), Some(second)) => {
                let first = self.vector_of(before, first, strict).await?;
                let second = self.vector_of(after, second, strict).await?;
                first.zip(second).map(|(a, b)| cosine(&a.vector, &b.vector))
            }
            _ => None,
        };
        timings.embed = millis(self.clock.monotonic().saturating_sub(embedding));
        // A face that enhancement brought to light has nothing to drift from.
        let identity_drift = match cosine {
            Some(cosine) => cosine < check.threshold,
            None => first.is_some(),
        };
        Ok(Identity {
            cosine,
            threshold: check.threshold,
            identity_drift,
        })
    }

    async fn faces_of<P: Pixels>(
        &self,
        picture: &Arc<P>,
        options: &DetectOptions,
        strict: bool,
    ) -> Result<Vec<DetectedFace>, PipelineError> {
        let (detector, executor) = (&self.detector, &self.processing);
        let submitted = detector.submit_through(executor, picture, options).await;
        self.check_rows(strict, Operation::ImageProcessing, submitted.unprocessed)?;
        let size = picture.as_ref().borrow().dimensions();
        let detected = self.detector.finish(submitted).await?;
        self.check_rows(strict, Operation::FaceDetection, detected.fallback)?;
        self.detector.faces(&detected, size, options)
    }

    async fn vector_of(
        &self,
        picture: &RgbImage,
        face: &DetectedFace,
        strict: bool,
    ) -> Result<Option<Embedding>, PipelineError> {
        let points = face.landmarks.ok_or_else(|| {
            PipelineError::invalid_option(
                "identity",
                format!(
                    "the detector {} gives no landmarks, so faces cannot be aligned and compared",
                    self.detector.spec.id
                ),
            )
        })?;
        let crop = align_face(picture, &points);
        let row = crop.map(|crop| self.embedder.submit(&crop, true));
        let embeddings = self.embedder.finish(row.into_iter().collect()).await?;
        self.check_rows(strict, Operation::FaceEmbedding, embeddings.fallback)?;
        Ok(embeddings.rows.into_iter().next().flatten())
    }
}
