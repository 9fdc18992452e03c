//! Compares the best face before and after an enhancement.

use std::sync::Arc;

use image::RgbImage;

use super::{
    request::{EnhancePlan, IdentityCheck},
    result::Identity,
};
use crate::{
    Pipeline,
    core::{
        error::PipelineError,
        image_file::PooledImage,
        run::{ImageRun, millis},
        scan::{Embedding, Face, cosine},
        work::{self, Size},
    },
    models::crop_model::FaceModel,
};
use facescan_imaging::warp::align_face;
use facescan_inference::device_task::DeviceTask;

impl Pipeline {
    pub(super) async fn compare(
        &self,
        before: &Arc<PooledImage>,
        after: &Arc<RgbImage>,
        check: &IdentityCheck,
        run: &mut ImageRun,
    ) -> Result<Identity, PipelineError> {
        let began = self.clock.monotonic();
        // The best face is chosen in the original image. In the enhanced image, the face at the same position is used.
        let score = |face: &Face| face.score.unwrap_or_default();
        let by_score = |a: &Face, b: &Face| score(a).total_cmp(&score(b));
        let found = self.faces_in(before, &check.detect, run).await?;
        let first = found.into_iter().max_by(by_score);
        let scale = after.width() as f32 / before.width() as f32;
        let scaled = check.detect.clone().scaled(scale);
        let second = match &first {
            Some(first) => {
                let expected = first.bbox.scaled(scale);
                let overlap = |face: &Face| face.bbox.iou(&expected);
                let found = self.faces_in(after, &scaled, run).await?;
                found
                    .into_iter()
                    .filter(|face| overlap(face) > 0.0)
                    .max_by(|a, b| overlap(a).total_cmp(&overlap(b)))
            }
            None => None,
        };
        run.timings.detect = millis(self.clock.monotonic().saturating_sub(began));
        let embedding = self.clock.monotonic();
        let cosine = match (&first, &second) {
            (Some(first), Some(second)) => {
                let first = self.vector_of(before, first, run).await?;
                let second = self.vector_of(after, second, run).await?;
                first.zip(second).map(|(a, b)| cosine(&a.vector, &b.vector))
            }
            _ => None,
        };
        run.timings.embed = millis(self.clock.monotonic().saturating_sub(embedding));
        // A face that only the enhanced image has cannot drift.
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

    /// Returns the price of the comparison for an image of a size. Returns 0 if the plan has none.
    pub(super) fn identity_work(&self, size: Size, plan: &EnhancePlan) -> u64 {
        let Some(check) = &plan.identity else {
            return 0;
        };
        let after = work::upscaled(size, plan.options.upscale);
        let search = |size| self.models.detector.work(size, &check.detect);
        let vector = work::align() + self.models.embedder.model().work();
        search(size) + search(after) + 2 * vector
    }

    async fn vector_of(
        &self,
        image: &RgbImage,
        face: &Face,
        run: &mut ImageRun,
    ) -> Result<Option<Embedding>, PipelineError> {
        let points = face.landmarks.ok_or_else(|| {
            PipelineError::invalid_option(
                "identity",
                format!(
                    "the detector {} returns no landmarks, so faces cannot be aligned and compared",
                    self.models.detector.spec.id
                ),
            )
        })?;
        let embedder = &self.models.embedder;
        run.work.add(work::align() + embedder.model().work())?;
        let crop = align_face(image, &points);
        let row = crop.map(|crop| embedder.model().submit(&crop, true));
        let outputs = embedder.model().finish(row.into_iter().collect()).await?;
        if let Some(device_run) = outputs.run {
            self.record(run, DeviceTask::FaceEmbedding, device_run)?;
        }
        match outputs.rows.first() {
            Some(output) => embedder.embedding(output),
            None => Ok(None),
        }
    }
}
