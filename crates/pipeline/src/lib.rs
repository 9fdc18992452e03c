//! The operations on an image, and what they need around them. This crate serves no HTTP, and it knows no database driver and
//! no runtime of models.
//!
//! Its rooms use one another in one direction: [`admission`] ← [`context`] ← [`ingest`] ← [`core`] ← [`models`] ← the
//! [`Pipeline`] and [`plan`] ← [`operations`] ← [`results`] and [`runner`]. `scripts/check-layers` checks it. Every entry point
//! calls the [`Runner`](runner::Runner), which loads, looks up, runs and stores.

#![warn(unreachable_pub)]

use std::sync::Arc;

use facescan_clock::Clock;
use facescan_imaging::{
    decode::{DecodeOptions, TurboJpeg},
    memory::PixelMemory,
};
use facescan_inference::{device::Devices, image_executor::ImageExecutor, pool::CpuPool};
use facescan_telemetry::metrics::Metrics;

use self::{
    core::work::WorkLimit,
    encoder_process::EncoderProcesses,
    models::{Models, grader::Grader, preprocessing::Preprocessing},
};
use crate::admission::priority_semaphore::PrioritySemaphore;

pub mod admission;
mod codec;
pub mod context;
pub mod core;
mod drive;
pub mod encoder_process;
pub mod ingest;
pub mod models;
pub mod operation;
pub mod operations;
pub mod plan;
pub mod results;
pub mod runner;
mod search;

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
    /// Encode large images, beside the long pool, whose decoders take less time. `None` if this process does, which cannot stop every
    /// encoder.
    pub encoders: Option<EncoderProcesses>,
    /// The pool of pixel memory that images are decoded into.
    pub memory: Arc<PixelMemory>,
    /// The device of each task.
    pub devices: Arc<Devices>,
    /// Counts waits and stages.
    pub metrics: Metrics,
    /// The time, and new identifiers.
    pub clock: Arc<dyn Clock>,
}
