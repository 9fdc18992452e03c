//! Models and the engines that run them.
//!
//! An [`operation::Operation`] runs on an [`engine::Engine`], which groups the rows of many requests
//! ([`batcher`]) and runs them on sessions that a [`backend::Backend`] opened from a model of the
//! [`registry::Registry`].

pub mod backend;
pub mod batcher;
pub mod device;
pub mod engine;
pub mod graphs;
mod onnx;
pub mod operation;
pub mod prepare;
pub mod registry;
mod slab;
pub mod tensor;
