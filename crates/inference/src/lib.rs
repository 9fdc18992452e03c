//! Models, the engines that run them, and the devices they run on.
//!
//! A [`device_task::DeviceTask`] runs on an [`engine::Engine`], which groups the rows of many requests into batches. It
//! runs them on sessions that a [`backend::Backend`] opened from a model of the [`registry::Registry`]. Work on whole
//! images runs on an [`image_executor::ImageExecutor`]. A [`placement`] must pass a [self-test](proof) before it is
//! used. After that, its [`health`] decides whether work goes there, and [`device`] reports the outcome.

pub mod accelerator;
pub mod backend;
mod batch_buffer;
mod batcher;
pub mod breaker;
pub mod device;
pub mod device_task;
pub mod engine;
pub mod graphs;
pub mod heads;
pub mod health;
pub mod image_executor;
#[cfg(any(test, feature = "testing"))]
pub mod log_recorder;
pub mod metrics;
mod onnx;
pub mod placement;
pub mod pool;
pub mod prepare;
pub mod proof;
pub mod registry;
pub mod tensor;
