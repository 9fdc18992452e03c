//! The stages of an image. This module does not depend on HTTP, on a database driver or on a runtime.
//!
//! [`scan`] has the stages of one image. [`stored`] adds the database.

use std::{borrow::Borrow, ops::Deref, sync::Arc, time::Duration};

use bytes::Bytes;
use image::RgbImage;
use tracing::Instrument;

use crate::{
    admission::{
        Priority,
        priority_semaphore::{DecodePermit, PrioritySemaphore},
    },
    context::RequestContext,
    pipeline::error::PipelineError,
    pipeline::{
        models::Models,
        preprocess::{PREPROCESSING, Preprocessing},
        quality::Grader,
        run::{ImageRun, RunOutput},
        work::{Size, WorkLimit},
    },
    telemetry::metrics::Metrics,
};
use facescan_clock::Clock;
use facescan_imaging::{
    decode::{
        DecodeError, DecodeOptions, Decoded, Reduction, TurboJpeg, decode_reduced, decode_within,
        decoded_pixels, stated_size,
    },
    encode::{OutputFormat, encode},
    memory::PixelMemory,
};
use facescan_inference::pool::{CpuPool, Stage};
use facescan_inference::{
    device::{DeviceRun, Devices},
    device_task::DeviceTask,
    image_executor::ImageExecutor,
};

pub mod answer;
pub mod base64_text;
pub mod budget;
pub mod embed_image;
pub mod enhance;
pub mod error;
pub mod faces;
pub mod fan_out;
mod memory;
pub mod models;
pub mod options;
pub mod preprocess;
pub mod process;
pub mod quality;
pub mod run;
pub mod scan;
pub mod stored;
pub mod work;

/// The largest number of pixels that are decoded within a turn of the pool, in some tens of milliseconds.
const DECODED_AT_ONCE: u64 = 1 << 21;
/// The same while the pool has one tenant. Nobody else waits for the decoder then, and a change of threads costs time.
const DECODED_AT_ONCE_ALONE: u64 = 1 << 24;
/// The pixels for each byte of the largest file that is decoded so: half of the pixels, which is a megabyte for the smaller
/// number. Photographs have fewer bytes.
const PIXELS_PER_BYTE: u64 = 2;

/// The components that process images. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline {
    /// Runs CPU work on pixels.
    pub pool: Arc<CpuPool>,
    /// Runs decoders and encoders on large images. They cannot give up their turn, so they have turns of their own.
    pub long_pool: Arc<CpuPool>,
    /// Limits how many images are held decoded, and orders the waiting ones.
    pub decode_permits: PrioritySemaphore,
    /// The models of the registry.
    pub models: Models,
    /// The number of faces of one image that are cut out and submitted at a time. It bounds the memory of a crowd.
    pub face_chunk_size: usize,
    /// Measures quality on a device. `None` if the CPU measures it.
    pub grader: Option<Grader>,
    /// Makes the detector's input and runs the operations of `/process`.
    pub processing: ImageExecutor,
    /// Enhances images.
    pub enhancing: ImageExecutor,
    /// Makes tensor rows from images.
    pub preprocessing: Preprocessing,
    /// The most work on one image.
    pub work_limit: WorkLimit,
    /// The limits and the background of decoding.
    pub decoding: DecodeOptions,
    /// The decoder of reduced JPEGs. `None` if the settings name none.
    pub turbojpeg: Option<Arc<TurboJpeg>>,
    /// The pool of pixel memory that images are decoded into.
    pub memory: Arc<PixelMemory>,
    /// The device of each operation.
    pub devices: Arc<Devices>,
    /// Counts waits and stages.
    pub metrics: Metrics,
    /// The time, and new identifiers.
    pub clock: Arc<dyn Clock>,
}

/// A decoded image that returns its memory to the pool on drop. It does not hold the permit: a device that hangs keeps
/// the pixels, but must not keep the permit.
pub(crate) struct PooledImage {
    pixels: RgbImage,
    memory: Arc<PixelMemory>,
}

impl Drop for PooledImage {
    fn drop(&mut self) {
        self.memory
            .keep(std::mem::take(&mut self.pixels).into_raw());
    }
}

impl PooledImage {
    fn new(pixels: RgbImage, pipeline: &Pipeline) -> Arc<Self> {
        Arc::new(Self {
            pixels,
            memory: Arc::clone(&pipeline.memory),
        })
    }
}

impl Borrow<RgbImage> for PooledImage {
    fn borrow(&self) -> &RgbImage {
        &self.pixels
    }
}

impl Deref for PooledImage {
    type Target = RgbImage;

    fn deref(&self) -> &RgbImage {
        &self.pixels
    }
}

/// Returns whether a file is decoded within a turn. Its size in pixels alone says little: a file can have scan after scan, and a
/// JPEG without an end marker is decoded several times.
fn is_decoded_at_once(bytes: &[u8], most: u64) -> bool {
    stated_size(bytes).is_some_and(|size| work::pixels(size) <= most)
        && bytes.len() as u64 <= most / PIXELS_PER_BYTE
        && decoded_pixels(bytes).is_some_and(|pixels| pixels <= most)
}

impl Pipeline {
    /// Waits for a permit to hold an image decoded, then runs `work` on the pool. The permit is held until `work` ends.
    /// Adds the wait and the total time to the timings of the run. `memory` is what the work needs, in bytes.
    async fn drive<T, F>(
        &self,
        context: &RequestContext,
        strict_device: bool,
        memory: u64,
        work: impl FnOnce(Self, ImageRun) -> F,
    ) -> Result<RunOutput<T>, PipelineError>
    where
        T: Send + 'static,
        F: Future<Output = Result<(T, ImageRun), PipelineError>> + Send + 'static,
    {
        let started = self.clock.monotonic();
        let permit = self.decode_permit(context, memory).await;
        let pipeline = self.clone();
        // Before the pool starts it, because that can take a while.
        let run = ImageRun::new(context, strict_device, self.work_limit);
        let work = work(self.clone(), run);
        let driven = async move {
            let _permit = permit;
            let waited = pipeline.since(started);
            let (result, mut run) = work.await?;
            run.timings.queue += waited;
            run.timings.total = pipeline.since(started);
            Ok(RunOutput { result, run })
        };
        // The models of bulk images would otherwise run before this image begins.
        let goes_first =
            context.priority == Priority::Interactive && self.decode_permits.has_bulk();
        let stage = match goes_first {
            true => Stage::BeginFirst,
            false => Stage::Begin,
        };
        let driven = driven.instrument(context.span.clone());
        let tenant = Arc::clone(&context.principal.tenant);
        self.pool.drive(Some(tenant), stage, driven).await?
    }

    /// Decodes an image into memory of the pool. Reduces a JPEG whose longer side is at least twice `min_side`, if that is
    /// given and libjpeg-turbo is loaded.
    ///
    /// # Errors
    /// The error of the decoder.
    async fn decode(&self, bytes: &Bytes, min_side: Option<u32>) -> Result<Decoded, PipelineError> {
        let most = match self.pool.has_one_tenant() {
            true => DECODED_AT_ONCE_ALONE,
            false => DECODED_AT_ONCE,
        };
        if is_decoded_at_once(bytes, most) {
            return Ok(self.decode_here(bytes, min_side)?);
        }
        let (pipeline, bytes) = (self.clone(), bytes.clone());
        let decode = move || pipeline.decode_here(&bytes, min_side);
        Ok(self.long_pool.run(Stage::Begin, decode).await??)
    }

    /// Decodes an image on this thread.
    fn decode_here(&self, bytes: &[u8], min_side: Option<u32>) -> Result<Decoded, DecodeError> {
        let _span = tracing::info_span!(target: "otlp", "decode", bytes = bytes.len());
        match self.turbojpeg.as_deref().zip(min_side) {
            None => decode_within(bytes, &self.decoding, &self.memory),
            Some((library, min_side)) => {
                let reduction = Reduction { library, min_side };
                decode_reduced(bytes, &self.decoding, &self.memory, &reduction)
            }
        }
    }

    /// Encodes an image.
    ///
    /// # Errors
    /// The error of the encoder.
    async fn encode(
        &self,
        image: &Arc<RgbImage>,
        output: OutputFormat,
    ) -> Result<Vec<u8>, PipelineError> {
        let pixels = u64::from(image.width()) * u64::from(image.height());
        if pixels <= output.max_pixels_at_once() {
            return Ok(encode(image, output)?);
        }
        let image = Arc::clone(image);
        let encode = move || encode(&image, output);
        Ok(self.long_pool.run(Stage::Begin, encode).await??)
    }

    /// Returns the memory that an image needs, by the size that its file states. The image may be turned while it is decoded,
    /// so `need` is asked for both orientations. If the file states no size, the memory is that of the largest image.
    fn memory_of(&self, file: &[u8], need: impl Fn(Size) -> u64) -> u64 {
        let max = self.decoding.limits.max_pixels;
        let side = u32::try_from(max.isqrt()).unwrap_or(u32::MAX);
        let stated = stated_size(file).filter(|size| work::pixels(*size) <= max);
        let (width, height) = stated.unwrap_or((side, side));
        need((width, height)).max(need((height, width)))
    }

    /// Waits for a permit to hold an image decoded.
    async fn decode_permit(&self, context: &RequestContext, memory: u64) -> DecodePermit {
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
    fn since(&self, began: Duration) -> f64 {
        scan::millis(self.clock.monotonic().saturating_sub(began))
    }

    /// Checks that every operation runs on the device that the settings name, if the request is strict.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] with the name of the first operation that does not.
    pub fn check_strict(
        &self,
        strict: bool,
        operations: &[DeviceTask],
    ) -> Result<(), PipelineError> {
        let fallen = self
            .devices
            .iter()
            .find(|(operation, state)| operations.contains(operation) && state.fell_back());
        match fallen {
            Some((operation, state)) if strict => Err(PipelineError::DeviceUnavailable {
                operation: operation.name(),
                requested: state.requested.clone(),
                reason: state.reason.clone().unwrap_or_default(),
            }),
            _ => Ok(()),
        }
    }

    /// Records the device that ran an operation.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] if the run is strict and the work fell back to the CPU.
    fn record(
        &self,
        run: &mut ImageRun,
        operation: DeviceTask,
        device_run: DeviceRun,
    ) -> Result<(), PipelineError> {
        match self.devices.assignment(operation) {
            Some(assignment) => run.record(operation.name(), assignment, device_run),
            None => Ok(()),
        }
    }

    /// Records the device that preprocessed an image. Preprocessing has its own device placement and is not an
    /// operation.
    ///
    /// # Errors
    /// The errors of [`record`](Self::record).
    fn record_preprocessing(
        &self,
        run: &mut ImageRun,
        device_run: DeviceRun,
    ) -> Result<(), PipelineError> {
        run.record(PREPROCESSING, &self.preprocessing.assignment, device_run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_small_in_every_way_are_decoded_at_once() {
        let jpeg = encode(&RgbImage::new(640, 480), OutputFormat::default()).unwrap();
        assert!(is_decoded_at_once(&jpeg, 640 * 480));
        assert!(!is_decoded_at_once(&jpeg, 640 * 479));
        assert!(!is_decoded_at_once(b"no image", u64::MAX));
        let without_end = &jpeg[..jpeg.len() - 2];
        assert!(!is_decoded_at_once(without_end, 3 * 640 * 480));
        assert!(is_decoded_at_once(without_end, 4 * 640 * 480));
        let many_bytes = [jpeg, vec![0; 640 * 480]].concat();
        assert!(!is_decoded_at_once(&many_bytes, 640 * 480));
    }
}
