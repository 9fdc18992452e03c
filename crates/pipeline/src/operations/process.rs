//! Runs a list of operations on an image, with masks if the request has some.

use facescan_imaging::preprocess::Profile;
use facescan_inference::{
    device::DeviceRun,
    device_task::DeviceTask,
    image_executor::{self, HealthProbe},
};

use self::{
    blur_job::BlurJob, canvas::Canvas, request::ProcessPlan, result::ProcessResult, step::Step,
};
use crate::{
    Pipeline,
    core::{
        error::PipelineError,
        options::DetectOptions,
        run::{ImageRun, RunOptions},
        work::{self, Size},
    },
    ingest::intake::LoadedImage,
    models::row_job::RowJob,
    operation::Operation,
    plan::Plan,
};

mod anonymize;
mod blur_job;
mod canvas;
mod fitting;
mod masks;
mod need;
mod price;
mod regions;
pub mod request;
pub mod result;
pub mod step;

/// Returns the probe of the device: it blurs a small image, and resizes it as `/process` and the detector do.
pub fn probe() -> HealthProbe {
    let resized = [Profile::Pil, Profile::Opencv].map(RowJob::probe);
    image_executor::all_probes([
        image_executor::health_probe(BlurJob::probe()),
        image_executor::health_probe(resized),
    ])
}

impl Plan for ProcessPlan {
    type Output = ProcessResult;

    fn operation(&self) -> Operation {
        Operation::Process
    }

    fn tasks(&self) -> Vec<DeviceTask> {
        let mut tasks = vec![DeviceTask::ImageProcessing];
        if self.detection().is_some() {
            tasks.push(DeviceTask::FaceDetection);
        }
        tasks
    }

    fn run_options(&self) -> RunOptions {
        self.run
    }

    fn detection(&self) -> Option<&DetectOptions> {
        let finds_faces = self.steps.iter().any(Step::finds_faces);
        finds_faces.then_some(&self.detect)
    }

    fn memory(&self, size: Size) -> u64 {
        self.memory_for(size)
    }

    async fn run(
        &self,
        pipeline: &Pipeline,
        file: LoadedImage,
        run: &mut ImageRun,
    ) -> Result<ProcessResult, PipelineError> {
        run.work.limit().check_file(&file.bytes, |size| {
            let searches = self.searches(size, &pipeline.models.detector);
            self.work(size).saturating_add(searches)
        })?;
        let price = |size| work::DECODE * work::pixels(size);
        let (info, image) = pipeline.open(file, run, price).await?;
        let began = pipeline.clock.monotonic();
        let mut canvas = Canvas::new(pipeline, self, &image, info, run);
        for step in self.steps.iter() {
            canvas.apply(step).await?;
        }
        let result = canvas.finish().await?;
        if !run.devices.contains_key(DeviceTask::ImageProcessing.name()) {
            // The CPU did all operations.
            pipeline.record(run, DeviceTask::ImageProcessing, DeviceRun::CPU)?;
        }
        run.timings.process = pipeline.since(began);
        Ok(result)
    }
}
