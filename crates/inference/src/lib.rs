//! Models and the engines that run them.
//!
//! An [`operation::Operation`] runs on an [`engine::Engine`], which groups the rows of many requests
//! and runs them on sessions that a [`backend::Backend`] opened from a model of the [`registry::Registry`]. Where an
//! operation asks for a device, the [`place`] is [proved](proof) first, its [`health`] decides whether rows go there,
//! and [`device`] tells what came of it.

pub mod accelerator;
pub mod backend;
mod batcher;
pub mod breaker;
pub mod device;
pub mod engine;
pub mod graphs;
pub mod health;
pub mod metrics;
mod onnx;
pub mod operation;
pub mod pictures;
pub mod place;
pub mod pool;
pub mod prepare;
pub mod proof;
pub mod registry;
mod slab;
pub mod tensor;
mod worker;
