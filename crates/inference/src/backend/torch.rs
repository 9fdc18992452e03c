//! libtorch through the `tch` crate, linked into binaries with the feature `torch`: models from TorchScript files, and
//! the image operations as tensor code.
//!
//! A model is requested by its ONNX file. This backend loads the TorchScript file beside it, which
//! `scripts/torchscript` makes. The self-test at startup compares its outputs with those of the ONNX file.

use std::{num::NonZeroUsize, path::Path, sync::Arc, sync::Once};

use tch::{CModule, Cuda, Device, TchError};

use super::{Backend, BackendError, Model, Opening, Session};
use crate::{
    graphs::{ImageGraph, session::GraphSession},
    placement::{DevicePlacement, Provider},
};
use code::TensorCode;
use quality::Measures;
use self_test::SelfTestGraph;
use session::Loaded;

mod code;
mod enhance;
mod process;
mod quality;
mod self_test;
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
        let failed = |error: TchError| match failure(&error) {
            BackendError::Run { detail } => BackendError::Load {
                path: opening.model.path(),
                detail,
            },
            other => other,
        };
        match opening.model {
            Model::File(path) => {
                let module = Arc::new(module(path, device).map_err(failed)?);
                let one = Loaded::new(module, device).map_err(failed)?;
                // A module holds the weights and is only read, so all sessions share one.
                Ok(each(opening.count, &one))
            }
            Model::Graph(graph) if ImageGraph::of(graph) == Some(ImageGraph::Quality) => {
                Ok(each(opening.count, &Measures::new(device)))
            }
            Model::Graph(graph) => {
                let one = SelfTestGraph::new(&graph.bytes, device).map_err(failed)?;
                Ok(each(opening.count, &one))
            }
        }
    }

    fn open_graph(&self, opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        let device = device(opening.placement)?;
        settle(opening.threads);
        match opening.model {
            Model::Graph(graph) => ImageGraph::of(graph),
            Model::File(_) => None,
        }
        .map(|code| Box::new(TensorCode::new(code, device)) as Box<dyn GraphSession>)
        .ok_or_else(|| BackendError::Load {
            path: opening.model.path(),
            detail: "there is no tensor code for it".to_owned(),
        })
    }
}

fn each<S: Session + Clone + 'static>(count: usize, one: &S) -> Vec<Box<dyn Session>> {
    (0..count)
        .map(|_| Box::new(one.clone()) as Box<dyn Session>)
        .collect()
}

/// Returns libtorch's name of a placement's device, if the device exists.
fn device(placement: DevicePlacement) -> Result<Device, BackendError> {
    let unavailable = |detail: String| Err(BackendError::Unavailable { detail });
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
        BackendError::OutOfMemory { detail: words }
    } else {
        BackendError::Run { detail: words }
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
