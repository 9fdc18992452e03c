//! The run of an operation on one image: the time of each stage, and the devices.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use facescan_inference::device::{Assignment, DeviceRun, DeviceState};
use facescan_store::NewScan;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    admission::{priority_semaphore::DecodePermit, response_reservation::ResponseReservation},
    context::RequestContext,
};

use super::{
    error::PipelineError,
    image_file::ImageInfo,
    work::{WorkLimit, WorkMeter},
};

/// The requested device and the device that ran the result, by the name of the device task.
pub type DevicesUsed = BTreeMap<Cow<'static, str>, DeviceState>;

/// The options that every operation has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Whether a fallback to another device is an error.
    pub strict_device: bool,
    /// Whether results contain the time of each stage.
    pub timings: bool,
}

/// A result, its run, and its scan in the database.
#[derive(Debug)]
pub struct RunOutput<T> {
    /// The result.
    pub result: T,
    /// The times and the devices.
    pub run: ImageRun,
    /// The scan. `None` if the result is not stored.
    pub stored: Option<StoredScan>,
}

/// The scan of a result in the database.
#[derive(Debug)]
pub enum StoredScan {
    /// The database had it, with this id.
    Found(Uuid),
    /// It is new and saved.
    Saved,
    /// It is new. The caller saves these rows.
    New(Box<NewScan>),
}

impl<T> RunOutput<T> {
    /// Converts the result with `convert`.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> RunOutput<U> {
        RunOutput {
            result: convert(self.result),
            run: self.run,
            stored: self.stored,
        }
    }
}

/// The run of an operation on one image.
#[derive(Debug, Default)]
pub struct ImageRun {
    /// Milliseconds by stage.
    pub timings: Timings,
    /// The devices. If the rows of one task ran on several devices, this names the one that was not requested.
    pub devices: DevicesUsed,
    /// The pixels that were decoded.
    pub pixels: u64,
    /// The last run of each device task. An equal run is not recorded again.
    last: BTreeMap<&'static str, DeviceRun>,
    is_strict: bool,
    /// The memory of the caller's response. `None` if no caller waits for one.
    response: Option<ResponseReservation>,
    pub(crate) work: WorkMeter,
    /// The right to hold the image decoded. `None` after the end, or if it was released before.
    permit: Option<DecodePermit>,
}

impl ImageRun {
    /// Creates a run without times and devices, which holds the permit until it ends. A strict run fails when work falls back
    /// to the CPU.
    pub(crate) fn new(
        context: &RequestContext,
        permit: DecodePermit,
        is_strict: bool,
        limit: WorkLimit,
    ) -> Self {
        Self {
            permit: Some(permit),
            is_strict,
            response: context.response.clone(),
            work: WorkMeter::new(limit),
            ..Self::default()
        }
    }

    /// Creates the run of a stored result. Only its devices are stored.
    pub(crate) fn stored(devices: DevicesUsed) -> Self {
        Self {
            devices,
            ..Self::default()
        }
    }

    /// Releases the permit before the end, if the rest of the run needs no pixels.
    pub(crate) fn release_permit(&mut self) {
        self.permit = None;
    }

    pub(crate) fn count_pixels(&mut self, image: &ImageInfo) {
        self.pixels += u64::from(image.width) * u64::from(image.height);
    }

    /// Reserves the bytes of a result that stays in memory until the response is read.
    ///
    /// # Errors
    /// [`PipelineError::Overloaded`] if the caller's part of the memory for responses is used up.
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), PipelineError> {
        match &self.response {
            Some(response) => Ok(response.add(bytes)?),
            None => Ok(()),
        }
    }

    /// Records the device that ran a device task.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] if the run is strict and the work fell back to the CPU.
    pub(crate) fn record(
        &mut self,
        task: &'static str,
        assignment: &Assignment,
        run: DeviceRun,
    ) -> Result<(), PipelineError> {
        if let Some(fault) = run.fallback
            && self.is_strict
        {
            return Err(PipelineError::DeviceUnavailable {
                operation: task,
                requested: assignment.requested.clone(),
                reason: format!("a run there failed ({}); send it again", fault.name()),
            });
        }
        if self.last.insert(task, run) == Some(run) {
            return Ok(());
        }
        let recorded = self.devices.get(task);
        if recorded.is_none_or(|recorded| !recorded.fell_back()) {
            let state = assignment.state_of(run);
            self.devices.insert(Cow::Borrowed(task), state);
        }
        Ok(())
    }
}

/// Milliseconds by stage. A stage that did not run has 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Timings {
    /// The download from a URL, and the wait for its reservation.
    pub fetch: f64,
    /// The lookup of a stored result in the database.
    pub cache: f64,
    /// The decoding.
    pub decode: f64,
    /// The waits for the permit, for a CPU worker and for the sessions of the models.
    pub queue: f64,
    /// The letterbox, the detector run and the NMS.
    pub detect: f64,
    /// The alignment and the quality measures of the faces.
    pub align: f64,
    /// The runs of the models on aligned crops or on the whole image.
    pub embed: f64,
    /// The enhancement and the encoding.
    pub enhance: f64,
    /// The operations of `/process`, and the encoding.
    pub process: f64,
    /// The write to the database.
    pub store: f64,
    /// The total time.
    pub total: f64,
}

impl Timings {
    /// Returns the milliseconds of each stage by name, without the total.
    pub fn stages(&self) -> [(&'static str, f64); 10] {
        // Without `..`, so that the compiler requires a name for each new stage.
        let Self {
            fetch,
            cache,
            decode,
            queue,
            detect,
            align,
            embed,
            enhance,
            process,
            store,
            total: _,
        } = *self;
        [
            ("fetch", fetch),
            ("cache", cache),
            ("decode", decode),
            ("queue", queue),
            ("detect", detect),
            ("align", align),
            ("embed", embed),
            ("enhance", enhance),
            ("process", process),
            ("store", store),
        ]
    }

    /// Returns the sum of detection, embedding, enhancement and processing, in milliseconds.
    pub fn inference(&self) -> f64 {
        // Without `..`, so that the compiler requires a decision about each new stage.
        let Self {
            fetch: _,
            cache: _,
            decode: _,
            queue: _,
            detect,
            align: _,
            embed,
            enhance,
            process,
            store: _,
            total: _,
        } = *self;
        detect + embed + enhance + process
    }

    /// Returns the times of an image whose download took `milliseconds`.
    pub(crate) fn after_fetch(self, milliseconds: f64) -> Self {
        // Rounds to microseconds. Finer times have no meaning here.
        let fetch = (milliseconds * 1e3).round() / 1e3;
        Self {
            fetch,
            total: self.total + fetch,
            ..self
        }
    }
}

pub(crate) fn millis(duration: Duration) -> f64 {
    // Rounds to microseconds. Finer times have no meaning here.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
