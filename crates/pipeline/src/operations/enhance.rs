//! Enhances images of low quality for detection.

mod finish_job;
mod identity;
pub mod request;
pub mod result;

use std::sync::Arc;

use facescan_imaging::enhance::PartlyEnhanced;
use facescan_inference::{device::DeviceRun, device_task::DeviceTask};

use self::{
    request::EnhancePlan,
    result::{EnhanceResult, EnhancedFile},
};
use crate::{
    Pipeline,
    core::{
        error::PipelineError,
        memory,
        options::DetectOptions,
        run::{ImageRun, RunOptions, millis},
        work::{self, Size},
    },
    ingest::intake::LoadedImage,
    operation::Operation,
    plan::Plan,
};

pub use finish_job::FinishJob;

/// The memory for each pixel of the enhanced image, in bytes: the steps before and after.
const ENHANCED_BYTES: u64 = 17;

impl Plan for EnhancePlan {
    type Output = EnhanceResult;

    fn operation(&self) -> Operation {
        Operation::Enhance
    }

    fn tasks(&self) -> Vec<DeviceTask> {
        let mut tasks = vec![DeviceTask::ImageEnhancement];
        if self.identity.is_some() {
            tasks.extend([
                DeviceTask::ImageProcessing,
                DeviceTask::FaceDetection,
                DeviceTask::FaceEmbedding,
            ]);
        }
        tasks
    }

    fn run_options(&self) -> RunOptions {
        self.run
    }

    fn detection(&self) -> Option<&DetectOptions> {
        self.identity.as_ref().map(|check| &check.detect)
    }

    fn memory(&self, size: Size) -> u64 {
        let enhanced = work::pixels(work::upscaled(size, self.options.upscale));
        let encoding = memory::samples(enhanced) + memory::encoding(enhanced, self.output());
        let search = self.detection().map_or(0, memory::detection);
        let enhancing = (enhanced * ENHANCED_BYTES).max(encoding) + search;
        memory::decoding(size).max(memory::samples(work::pixels(size)) + enhancing)
    }

    async fn run(
        &self,
        pipeline: &Pipeline,
        file: LoadedImage,
        run: &mut ImageRun,
    ) -> Result<EnhanceResult, PipelineError> {
        let price = |size| work::enhance(size, &self.options, self.output());
        run.work.limit().check_file(&file.bytes, |size| {
            price(size).saturating_add(pipeline.identity_work(size, self))
        })?;
        let (info, before) = pipeline.open(file, run, price).await?;
        let began = pipeline.clock.monotonic();
        let partial = PartlyEnhanced::new(&before, &self.options);
        let after = match partial.device_steps {
            Some(steps) => {
                let image = partial.image;
                let done = pipeline.enhancing.run(Arc::new(FinishJob { image, steps }));
                let done = done.await;
                pipeline.record(run, DeviceTask::ImageEnhancement, done.run)?;
                run.timings.queue += millis(done.queued);
                run.timings.enhance -= millis(done.queued);
                done.output
            }
            None => {
                pipeline.record(run, DeviceTask::ImageEnhancement, DeviceRun::CPU)?;
                partial.image
            }
        };
        let after = Arc::new(after);
        let data = pipeline.encode(&after, self.output()).await?;
        run.keep(data.len())?;
        run.timings.enhance += pipeline.since(began);
        let identity = match &self.identity {
            Some(check) => Some(pipeline.compare(&before, &after, check, run).await?),
            None => None,
        };
        Ok(EnhanceResult {
            image: info,
            enhanced: EnhancedFile {
                format: self.format,
                width: after.width(),
                height: after.height(),
                scale: partial.scale,
                steps: partial.steps,
                data: data.into(),
            },
            identity,
        })
    }
}
