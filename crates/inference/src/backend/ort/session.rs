//! A session of ONNX Runtime: rows in, tensors out.

use std::{collections::BTreeMap, sync::Arc};

use ort::{
    session::{RunOptions, Session as OrtSession},
    value::{Outlet, TensorElementType, TensorRef, ValueType},
};

use super::assignment;
use crate::{
    backend::{BackendError, Batch, Session, Stop, run_failure},
    tensor::{Port, Signature, Tensor},
};

/// Lets the CPU's arena shrink after a run.
/// <https://onnxruntime.ai/docs/get-started/with-c.html#features>
const ARENA_SHRINKAGE: (&str, &str) = ("memory.enable_memory_arena_shrinkage", "cpu:0");

pub(super) struct Loaded {
    session: OrtSession,
    signature: Signature,
    options: RunOptions,
    /// The options of a run after which the arena shrinks.
    freeing: Arc<RunOptions>,
    has_arena: bool,
}

fn freeing(has_arena: bool) -> ort::Result<Arc<RunOptions>> {
    let mut options = RunOptions::new()?;
    if has_arena {
        options.set(ARENA_SHRINKAGE.0, ARENA_SHRINKAGE.1)?;
    }
    Ok(Arc::new(options))
}

impl Loaded {
    pub(super) fn new(session: OrtSession, has_arena: bool) -> ort::Result<Self> {
        Ok(Self {
            signature: Signature {
                inputs: session.inputs().iter().map(port).collect(),
                outputs: session.outputs().iter().map(port).collect(),
            },
            session,
            options: RunOptions::new()?,
            freeing: freeing(has_arena)?,
            has_arena,
        })
    }

    fn outputs(&mut self, batch: Batch<'_>) -> ort::Result<Vec<Tensor>> {
        let options = if batch.frees_memory {
            &self.freeing
        } else {
            &self.options
        };
        let input = TensorRef::from_array_view((batch.shape(), batch.data))?;
        let outputs = self
            .session
            .run_with_options(ort::inputs![input], options)?;
        self.signature
            .outputs
            .iter()
            .zip(outputs.values())
            // Encoders may have outputs of other types, which are not read.
            .filter(|(port, _)| port.is_f32)
            .map(|(port, value)| {
                let (shape, data) = value.try_extract_tensor::<f32>()?;
                Ok(Tensor {
                    name: port.name.clone(),
                    shape: shape
                        .iter()
                        .map(|&dim| usize::try_from(dim).unwrap_or(0))
                        .collect(),
                    data: data.to_vec(),
                })
            })
            .collect()
    }
}

impl Session for Loaded {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        self.outputs(batch)
            .map_err(|error| run_failure(error.message().to_owned()))
    }

    fn stop(&mut self) -> Option<Stop> {
        // Options whose runs were ended end later runs too.
        self.freeing = freeing(self.has_arena).ok()?;
        let options = Arc::clone(&self.freeing);
        Some(Arc::new(move || {
            if let Err(error) = options.terminate() {
                tracing::warn!(error = error.message(), "a run could not be ended");
            }
        }))
    }

    fn assignment(&self) -> BTreeMap<String, usize> {
        assignment::of(&self.session)
    }
}

fn port(outlet: &Outlet) -> Port {
    let (is_f32, dims) = match outlet.dtype() {
        ValueType::Tensor { ty, shape, .. } => (
            *ty == TensorElementType::Float32,
            shape.iter().map(|&dim| usize::try_from(dim).ok()).collect(),
        ),
        _ => (false, Vec::new()),
    };
    Port {
        name: outlet.name().to_owned(),
        dims,
        is_f32,
    }
}
