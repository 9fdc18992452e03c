//! The run of an operation on one image: the time of each stage, and the devices.

use std::{borrow::Cow, collections::BTreeMap};

use facescan_inference::device::{Assignment, DeviceRun, DeviceState};

use crate::{admission::answer_reservation::AnswerReservation, context::RequestContext};

use super::{
    answer::{ImageInfo, Timings},
    error::PipelineError,
    work::{WorkLimit, WorkMeter},
};

/// The requested device and the device that ran the result, by the name of the operation.
pub type DevicesUsed = BTreeMap<Cow<'static, str>, DeviceState>;

/// The options that every operation has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Whether a fallback to another device is an error.
    pub strict_device: bool,
    /// Whether results contain the time of each stage.
    pub timings: bool,
}

impl RunOptions {
    /// Fills in the defaults. Both options are off by default.
    pub fn new(strict_device: Option<bool>, timings: Option<bool>) -> Self {
        Self {
            strict_device: strict_device.unwrap_or(false),
            timings: timings.unwrap_or(false),
        }
    }
}

/// A result and its run.
#[derive(Clone, Debug)]
pub struct RunOutput<T> {
    /// The result.
    pub result: T,
    /// The times and the devices.
    pub run: ImageRun,
}

impl<T> RunOutput<T> {
    /// Converts the result with `convert`.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> RunOutput<U> {
        RunOutput {
            result: convert(self.result),
            run: self.run,
        }
    }
}

/// The run of an operation on one image.
#[derive(Clone, Debug, Default)]
pub struct ImageRun {
    /// Milliseconds by stage.
    pub timings: Timings,
    /// The devices. If the rows of one operation ran on several devices, this names the one that was not requested.
    pub devices: DevicesUsed,
    /// The pixels that were decoded.
    pub pixels: u64,
    /// The last run of each operation. An equal run is not recorded again.
    last: BTreeMap<&'static str, DeviceRun>,
    is_strict: bool,
    /// The memory of the caller's answer. `None` if no caller waits for one.
    answer: Option<AnswerReservation>,
    /// The work of the operations.
    pub(super) work: WorkMeter,
}

impl ImageRun {
    /// Creates a run without times and devices. A strict run fails when work falls back to the CPU.
    pub(super) fn new(context: &RequestContext, is_strict: bool, limit: WorkLimit) -> Self {
        Self {
            is_strict,
            answer: context.answer.clone(),
            work: WorkMeter::new(limit),
            ..Self::default()
        }
    }

    /// Creates the run of a stored result. Only its devices are stored.
    pub(super) fn stored(devices: DevicesUsed) -> Self {
        Self {
            devices,
            ..Self::default()
        }
    }

    /// Counts the pixels of an image that was decoded.
    pub(super) fn count_pixels(&mut self, image: &ImageInfo) {
        self.pixels += u64::from(image.width) * u64::from(image.height);
    }

    /// Reserves the bytes of a result that stays in memory until the answer is read.
    ///
    /// # Errors
    /// [`PipelineError::Overloaded`] if the caller's part of the memory for answers is used up.
    pub(super) fn keep(&self, bytes: usize) -> Result<(), PipelineError> {
        match &self.answer {
            Some(answer) => Ok(answer.add(bytes)?),
            None => Ok(()),
        }
    }

    /// Records the device that ran `operation`.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] if the run is strict and the work fell back to the CPU.
    pub(super) fn record(
        &mut self,
        operation: &'static str,
        assignment: &Assignment,
        run: DeviceRun,
    ) -> Result<(), PipelineError> {
        if let Some(fault) = run.fallback
            && self.is_strict
        {
            return Err(PipelineError::DeviceUnavailable {
                operation,
                requested: assignment.requested.clone(),
                reason: format!("a run there failed ({}); send it again", fault.name()),
            });
        }
        if self.last.insert(operation, run) == Some(run) {
            return Ok(());
        }
        let recorded = self.devices.get(operation);
        if recorded.is_none_or(|recorded| !recorded.fell_back()) {
            let state = assignment.state_of(run);
            self.devices.insert(Cow::Borrowed(operation), state);
        }
        Ok(())
    }
}
