//! libtorch through the `tch` crate, linked into binaries with the feature `torch`: models from TorchScript files, and
//! built-in graphs node by node.
//!
//! A model is requested by its ONNX file. This backend loads the TorchScript file beside it, which
//! `scripts/torchscript` makes. The self-test at startup compares its outputs with those of the ONNX file.

use std::{num::NonZeroUsize, path::Path, sync::Arc, sync::Once};

use tch::{CModule, Cuda, Device, TchError};

use super::{Backend, BackendError, Model, Opening, Session};
use crate::{
    graphs::session::{GraphModel, GraphSession},
    placement::{DevicePlacement, Provider},
};
use graph::LoadedGraph;
use session::Loaded;

mod graph;
mod session;

#[cfg(test)]
mod tests;

/// libtorch, which is linked into the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct TorchBackend;

impl Backend for TorchBackend {
    fn name(&self) -> &str {
        "libtorch"
    }

    fn check_available(&self, placement: DevicePlacement) -> Result<(), BackendError> {
        device(placement).map(drop)
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError> {
        let device = device(opening.placement)?;
        settle(opening.threads);
        match opening.model {
            Model::File(path) => {
                let module = Arc::new(module(path, device).map_err(load_failure(opening))?);
                let one = Loaded::new(module, device).map_err(load_failure(opening))?;
                // A module holds the weights and is only read, so all sessions share one.
                let each = (0..opening.count).map(|_| Box::new(one.clone()) as Box<dyn Session>);
                Ok(each.collect())
            }
            Model::Graph(graph) => (0..opening.count)
                .map(|_| Ok(Box::new(loaded(graph, device, opening)?) as Box<dyn Session>))
                .collect(),
        }
    }

    fn open_graph(&self, opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        let device = device(opening.placement)?;
        settle(opening.threads);
        match opening.model {
            Model::Graph(graph) => Ok(Box::new(loaded(graph, device, opening)?)),
            Model::File(_) => Err(BackendError::Load {
                path: opening.model.path(),
                detail: "a file is no built-in graph".to_owned(),
            }),
        }
    }
}

fn loaded(
    graph: &GraphModel,
    device: Device,
    opening: &Opening<'_>,
) -> Result<LoadedGraph, BackendError> {
    LoadedGraph::new(&graph.bytes, device).map_err(load_failure(opening))
}

/// Returns the conversion of an error that ends the opening of a model.
fn load_failure(opening: &Opening<'_>) -> impl Fn(TchError) -> BackendError {
    move |error| match failure(&error) {
        BackendError::Run(detail) => BackendError::Load {
            path: opening.model.path(),
            detail,
        },
        other => other,
    }
}

/// Returns libtorch's name of a placement's device, if the device exists.
fn device(placement: DevicePlacement) -> Result<Device, BackendError> {
    let unavailable = |detail: String| Err(BackendError::Unavailable(detail));
    match placement.provider {
        Provider::TorchCpu => Ok(Device::Cpu),
        Provider::TorchCuda => {
            let count = Cuda::device_count();
            if count > i64::from(placement.index) {
                Ok(Device::Cuda(placement.index as usize))
            } else if tch::utils::has_cuda() {
                unavailable(format!(
                    "it has {count} devices, and the settings name number {}",
                    placement.index
                ))
            } else {
                unavailable(
                    "the libtorch that was linked has no CUDA, or finds no device".to_owned(),
                )
            }
        }
        Provider::TorchMps if tch::utils::has_mps() => Ok(Device::Mps),
        Provider::TorchMps => {
            unavailable("the libtorch that was linked has no Metal, or finds no device".to_owned())
        }
        other => unavailable(format!("libtorch does not run {other}")),
    }
}

/// Applies settings to the whole process. The first model decides them.
fn settle(threads: NonZeroUsize) {
    static SETTLED: Once = Once::new();
    SETTLED.call_once(|| {
        tch::set_num_threads(i32::try_from(threads.get()).unwrap_or(i32::MAX));
        // Compiling for the shapes of the first runs takes longer than the runs, and rows have many sizes.
        tch::jit::set_profiling_mode(false);
        tch::jit::set_tensor_expr_fuser_enabled(false);
    });
}

/// Returns the TorchScript file beside an ONNX file, on a device.
fn module(path: &Path, device: Device) -> Result<CModule, TchError> {
    let script = path.with_extension("pt");
    if !script.exists() {
        return Err(TchError::FileFormat(format!(
            "there is no {} beside it; run scripts/torchscript",
            script.display()
        )));
    }
    CModule::load_on_device(script, device)
}

/// Classifies an error of libtorch: out of memory, or a failed run.
fn failure(error: &TchError) -> BackendError {
    let words = match error {
        TchError::Torch(words) => gist(words).to_owned(),
        other => other.to_string(),
    };
    if is_out_of_memory(&words) {
        BackendError::OutOfMemory(words)
    } else {
        BackendError::Run(words)
    }
}

/// Returns the line of the message that names the cause: the one after the traceback of a TorchScript program, or the
/// first.
fn gist(words: &str) -> &str {
    words
        .lines()
        .find_map(|line| line.split_once("Error: ").map(|(_, said)| said))
        .or_else(|| words.lines().next())
        .unwrap_or(words)
}

/// Returns whether libtorch reports that memory ran out. The messages come from its allocators for CUDA, Metal and the
/// CPU, and from the libraries that it uses.
fn is_out_of_memory(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    [
        "out of memory",
        "can't allocate memory",
        "not enough memory",
        "cannot allocate memory",
        "alloc_failed",
        "bad_alloc",
    ]
    .iter()
    .any(|known| words.contains(known))
}
