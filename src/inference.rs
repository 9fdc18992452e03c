//! Models and the engines that run them.
//!
//! An [`operation::Operation`] runs on an [`engine::Engine`]; the engine's own thread owns the
//! session that a [`backend::Backend`] opened from a model of the [`registry::Registry`].

pub mod backend;
pub mod device;
pub mod engine;
mod onnx;
pub mod operation;
pub mod prepare;
pub mod registry;
pub mod tensor;
