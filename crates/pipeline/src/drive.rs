//! Runs a plan on an image: waits for a permit, runs the stages on the pool, and records times and devices.

use std::{sync::Arc, time::Duration};

use facescan_imaging::decode::stated_size;
use facescan_inference::{device::DeviceRun, device_task::DeviceTask, pool::Stage};
use tracing::Instrument;

use super::{
    Pipeline,
    core::{
        error::PipelineError,
        image_file::{ContentHash, content_hash},
        run::{ImageRun, RunOutput, millis},
        work::{self, Size},
    },
    plan::Plan,
};
use crate::{
    admission::{Priority, priority_semaphore::DecodePermit},
    context::RequestContext,
    ingest::intake::LoadedImage,
};

/// The bytes of a file that is hashed sooner than a thread of the pool begins.
const HASHED_AT_ONCE: usize = 32 << 10;

impl Pipeline {
    /// Waits for a permit to hold an image decoded, then runs a plan on the image, on the pool. The permit is held until
    /// the plan ends or releases it. Adds the wait and the total time to the timings of the run.
    ///
    /// # Errors
    /// An error of the image, of a model or of the server.
    pub async fn drive<P: Plan>(
        &self,
        context: &RequestContext,
        image: LoadedImage,
        plan: &P,
    ) -> Result<RunOutput<P::Output>, PipelineError> {
        if let Some(options) = plan.detection() {
            self.models.detector.check(options)?;
        }
        let started = self.clock.monotonic();
        let memory = self.memory_of(&image.bytes, |size| plan.memory(size));
        let permit = self.decode_permit(context, memory).await;
        let (pipeline, plan) = (self.clone(), plan.clone());
        let is_strict = plan.run_options().strict_device;
        // Before the pool starts it, because that can take a while.
        let mut run = ImageRun::new(context, permit, is_strict, self.work_limit);
        let driven = async move {
            let waited = pipeline.since(started);
            let result = plan.run(&pipeline, image, &mut run).await?;
            run.release_permit();
            run.timings.queue += waited;
            run.timings.total = pipeline.since(started);
            Ok(RunOutput {
                result,
                run,
                stored: None,
            })
        };
        // The models of bulk images would otherwise run before this image begins.
        let goes_first =
            context.priority == Priority::Interactive && self.decode_permits.has_bulk();
        let stage = if goes_first {
            Stage::BeginFirst
        } else {
            Stage::Begin
        };
        let driven = driven.instrument(context.span.clone());
        let tenant = Arc::clone(&context.principal.tenant);
        self.pool.drive(Some(tenant), stage, driven).await?
    }

    /// Returns the sha256 of an image of a tenant. The pool computes that of a large file the first time.
    pub(crate) async fn hash(
        &self,
        tenant: &Arc<str>,
        image: &mut LoadedImage,
    ) -> Result<ContentHash, PipelineError> {
        if let Some(hash) = image.hash {
            return Ok(hash);
        }
        let hash = if image.bytes.len() <= HASHED_AT_ONCE {
            content_hash(&image.bytes)
        } else {
            let (bytes, tenant) = (image.bytes.clone(), Some(Arc::clone(tenant)));
            let hash = self
                .pool
                .run_for(tenant, Stage::Begin, move || content_hash(&bytes));
            hash.await?
        };
        image.hash = Some(hash);
        Ok(hash)
    }

    /// Returns the memory that an image needs, by the size that its file states. The image may be turned while it is decoded,
    /// so `need` is asked for both orientations. If the file states no size, the memory is that of the largest image.
    pub(crate) fn memory_of(&self, file: &[u8], need: impl Fn(Size) -> u64) -> u64 {
        let max = self.decoding.limits.max_pixels;
        let side = u32::try_from(max.isqrt()).unwrap_or(u32::MAX);
        let stated = stated_size(file).filter(|size| work::pixels(*size) <= max);
        let (width, height) = stated.unwrap_or((side, side));
        need((width, height)).max(need((height, width)))
    }

    /// Waits for a permit to hold an image decoded.
    pub(crate) async fn decode_permit(
        &self,
        context: &RequestContext,
        memory: u64,
    ) -> DecodePermit {
        let _span =
            tracing::info_span!(target: "otlp", "queue", priority = context.priority.name());
        let started = self.clock.monotonic();
        let tenant = &context.principal.tenant;
        let permit = self
            .decode_permits
            .acquire(context.priority, tenant, memory)
            .await;
        let elapsed = self.clock.monotonic().saturating_sub(started);
        self.metrics.waited(context.priority.name(), elapsed);
        permit
    }

    /// Returns the milliseconds since `began`, which is a time of the clock.
    pub(crate) fn since(&self, began: Duration) -> f64 {
        millis(self.clock.monotonic().saturating_sub(began))
    }

    /// Checks that every task runs on the device that the settings name, if the request is strict.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] with the name of the first task that does not.
    pub(crate) fn check_strict(
        &self,
        strict: bool,
        tasks: &[DeviceTask],
    ) -> Result<(), PipelineError> {
        let fallen = self
            .devices
            .iter()
            .find(|(task, state)| tasks.contains(task) && state.fell_back());
        match fallen {
            Some((task, state)) if strict => Err(PipelineError::DeviceUnavailable {
                operation: task.name(),
                requested: state.requested.clone(),
                reason: state.reason.clone().unwrap_or_default(),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that preprocessing runs on the platform that the settings name, if the request is strict.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] if it does not.
    pub fn check_platform(&self, strict: bool) -> Result<(), PipelineError> {
        let state = self.preprocessing.assignment.state();
        match state.reason {
            Some(reason) if strict => Err(PipelineError::DeviceUnavailable {
                operation: DeviceTask::ImageProcessing.name(),
                requested: state.requested,
                reason,
            }),
            _ => Ok(()),
        }
    }

    /// Records the device that ran a task.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] if the run is strict and the work fell back to the CPU.
    pub(crate) fn record(
        &self,
        run: &mut ImageRun,
        task: DeviceTask,
        device_run: DeviceRun,
    ) -> Result<(), PipelineError> {
        match self.devices.assignment(task) {
            Some(assignment) => run.record(task.name(), assignment, device_run),
            None => Ok(()),
        }
    }
}
