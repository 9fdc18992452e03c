//! A loaded model.

use std::sync::Arc;

use facescan_inference::{engine::Engine, registry::ModelSpec};

/// A model with the engine that runs it.
#[derive(Clone)]
pub struct LoadedModel {
    /// The entry of the registry.
    pub spec: Arc<ModelSpec>,
    /// The engine.
    pub engine: Engine,
    /// The engine of rows that take much longer than others on the CPU, if the model can have such rows.
    pub long: Option<Engine>,
}
