//! The search for faces in pixels, which several operations need.

use std::sync::Arc;

use facescan_inference::device_task::DeviceTask;
use image::RgbImage;

use super::{
    Pipeline,
    core::{
        error::PipelineError,
        image_file::{Pixels, into_owned},
        options::DetectOptions,
        run::ImageRun,
        scan::Face,
    },
};

impl Pipeline {
    /// Returns the faces of an image, largest first.
    ///
    /// # Errors
    /// [`PipelineError::TooMuchWork`] before the search, or an error of the model or the server.
    pub(crate) async fn faces_in<P: Pixels>(
        &self,
        image: &Arc<P>,
        detect: &DetectOptions,
        run: &mut ImageRun,
    ) -> Result<Vec<Face>, PipelineError> {
        let size = image.as_ref().borrow().dimensions();
        run.work.add(self.models.detector.work(size, detect))?;
        let submitted = self
            .models
            .detector
            .submit_through(&self.processing, image, detect)
            .await;
        self.record(run, DeviceTask::ImageProcessing, submitted.processed)?;
        let detector = &self.models.detector;
        let detected = detector.finish(submitted, size, detect).await?;
        self.record(run, DeviceTask::FaceDetection, detected.run)?;
        Ok(detected.faces)
    }

    /// As [`faces_in`](Self::faces_in), for an image that nobody else holds.
    pub(crate) async fn faces_of(
        &self,
        pixels: &mut RgbImage,
        detect: &DetectOptions,
        run: &mut ImageRun,
    ) -> Result<Vec<Face>, PipelineError> {
        let image = Arc::new(std::mem::take(pixels));
        let faces = self.faces_in(&image, detect, run).await;
        *pixels = into_owned(image);
        faces
    }
}
