//! The way of an image, with no HTTP, no database driver and no runtime types in it.
//!
//! [`scan`] is the stages of one image; [`stored`] puts the database around them.

use std::{borrow::Borrow, collections::BTreeMap, ops::Deref, sync::Arc, time::Duration};

use image::RgbImage;
use tracing::Instrument;

use crate::{
    admission::priority_semaphore::PrioritySemaphore,
    context::RequestContext,
    pipeline::error::PipelineError,
    pipeline::{
        answer::{DetectorUsed, EmbedderUsed, ModelsUsed, Timings},
        detect::Detector,
        embed::Embedder,
        encode::Encoder,
        preprocess::Preprocessing,
        quality::Grader,
    },
};
use facescan_clock::Clock;
use facescan_imaging::{decode::DecodeOptions, memory::PixelMemory};
use facescan_inference::pool::{CpuPool, Stage};
use facescan_inference::{
    device::{DeviceState, Devices},
    health::Fault,
    image_executor::ImageExecutor,
    operation::Operation,
};

pub mod answer;
pub mod budget;
mod crops;
pub mod detect;
pub mod embed;
pub mod encode;
pub mod enhance;
pub mod error;
pub mod heads;
pub mod options;
pub mod preprocess;
pub mod process;
pub mod quality;
pub mod scan;
pub mod stored;

/// Everything an image passes through. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline {
    /// Where pixels are worked on.
    pub pool: Arc<CpuPool>,
    /// Who is next, and how many pictures are held decoded.
    pub decode_permits: PrioritySemaphore,
    /// Finds faces.
    pub detector: Detector,
    /// Makes vectors.
    pub embedder: Embedder,
    /// Makes vectors of whole pictures, where the settings name a model for it.
    pub encoder: Option<Encoder>,
    /// Measures quality on a device, where one does.
    pub grader: Option<Grader>,
    /// Makes the detector's input from pictures.
    pub processing: ImageExecutor,
    /// Enhances pictures.
    pub enhancing: ImageExecutor,
    /// Makes rows of tensors.
    pub preprocessing: Preprocessing,
    /// The limits and the background of decoding.
    pub decoding: DecodeOptions,
    /// Where pictures are decoded into.
    pub memory: Arc<PixelMemory>,
    /// Which device each operation runs on.
    pub devices: Arc<Devices>,
    /// Time and identifiers.
    pub clock: Arc<dyn Clock>,
}

/// A decoded picture, whose memory is used again. Its place behind the gate stays with whoever works on it: a device that
/// hangs keeps the pixels, and may not keep the place.
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

impl Pipeline {
    /// Lets the pool drive the work on one picture once it is through the gate, whose place it keeps to its end. `work`
    /// gives its times back, to which the wait and the whole are added.
    async fn drive<T, F>(
        &self,
        context: &RequestContext,
        work: impl FnOnce(Self, Timings) -> F,
    ) -> Result<(T, Timings), PipelineError>
    where
        T: Send + 'static,
        F: Future<Output = Result<(T, Timings), PipelineError>> + Send + 'static,
    {
        let started = self.clock.monotonic();
        let place = self.decode_permits.acquire(context.priority).await;
        let pipeline = self.clone();
        // The pool may take a while to begin.
        let work = work(self.clone(), Timings::default());
        let driven = async move {
            let _place = place;
            let waited = pipeline.since(started);
            let (value, mut timings) = work.await?;
            timings.queue += waited;
            timings.total = pipeline.since(started);
            Ok((value, timings))
        };
        self.pool
            .drive(Stage::Begin, driven.instrument(context.span.clone()))
            .await?
    }

    /// Milliseconds since a time of the clock's.
    fn since(&self, began: Duration) -> f64 {
        scan::millis(self.clock.monotonic().saturating_sub(began))
    }

    /// The device states of the operations that take part in a request.
    pub fn devices_of(&self, operations: &[Operation]) -> BTreeMap<&'static str, DeviceState> {
        self.devices
            .iter()
            .filter(|(operation, _)| operations.contains(operation))
            .map(|(operation, state)| (operation.name(), state))
            .collect()
    }

    /// Refuses a strict request when an operation would not run where the settings ask.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] naming the operation.
    pub fn check_strict(
        &self,
        strict: bool,
        operations: &[Operation],
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

    /// Refuses a strict request whose rows the operation's device did not run.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] naming the operation.
    fn check_rows(
        &self,
        strict: bool,
        operation: Operation,
        fallback: Option<Fault>,
    ) -> Result<(), PipelineError> {
        match fallback {
            Some(fault) if strict => Err(PipelineError::DeviceUnavailable {
                operation: operation.name(),
                requested: self
                    .devices
                    .get(operation)
                    .map(|state| state.requested)
                    .unwrap_or_default(),
                reason: format!("a run there failed ({}); send it again", fault.name()),
            }),
            _ => Ok(()),
        }
    }

    /// The models behind an answer whose operations are `operations`.
    pub fn models_used(&self, operations: &[Operation]) -> ModelsUsed {
        let detector = operations
            .contains(&Operation::FaceDetection)
            .then(|| DetectorUsed {
                id: self.detector.spec.id.clone(),
                sha256: self.detector.spec.sha256.clone(),
            });
        let embedder = operations
            .contains(&Operation::FaceEmbedding)
            .then(|| EmbedderUsed {
                id: self.embedder.spec.id.clone(),
                dim: self.embedder.dim,
                contract: self.embedder.contract.clone(),
            });
        let encoder = self
            .encoder
            .as_ref()
            .filter(|_| operations.contains(&Operation::ImageEmbedding))
            .map(|encoder| EmbedderUsed {
                id: encoder.spec.id.clone(),
                dim: encoder.dim,
                contract: encoder.contract.clone(),
            });
        ModelsUsed {
            detector,
            embedder,
            encoder,
        }
    }
}
