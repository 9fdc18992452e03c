//! The search for faces in pixels, which several operations need.

use std::sync::Arc;

use facescan_inference::device_task::DeviceTask;

use super::{
    Pipeline,
    core::{error::PipelineError, options::DetectOptions, pixels::Pixels, run::ImageRun},
    models::detector::DetectedFace,
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
    ) -> Result<Vec<DetectedFace>, PipelineError> {
        let size = image.as_ref().borrow().dimensions();
        run.work.add(self.models.detector.work(size, detect))?;
        let submitted = self
            .models
            .detector
            .submit_through(&self.processing, image, detect)
            .await;
        self.record(run, DeviceTask::ImageProcessing, submitted.processed)?;
        let detected = self.models.detector.finish(submitted).await?;
        self.record(run, DeviceTask::FaceDetection, detected.run)?;
        self.models.detector.faces(&detected, size, detect)
    }
}
