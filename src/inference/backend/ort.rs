//! ONNX Runtime through the `ort` crate, loaded at run time from a shared library.

pub mod graph;

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use ort::{
    environment::Environment,
    session::{
        RunOptions, Session as OrtSession,
        builder::{AutoDevicePolicy, GraphOptimizationLevel, PrepackedWeights},
    },
    value::{Outlet, TensorElementType, TensorRef, ValueType},
};

use super::{Backend, BackendError, Batch, Session};
use crate::inference::tensor::{Port, Signature, Tensor};

/// Lets the CPU's arena shrink after a run.
/// <https://onnxruntime.ai/docs/get-started/with-c.html#features>
const ARENA_SHRINKAGE: (&str, &str) = ("memory.enable_memory_arena_shrinkage", "cpu:0");

/// The runtime, loaded once for the process.
pub struct OrtBackend {
    environment: Environment,
}

impl OrtBackend {
    /// Loads the runtime library. [`crate::telemetry::opt_out`] must have run before, or the library reports its use.
    ///
    /// # Errors
    /// [`BackendError::Library`] when there is none or it does not fit.
    pub fn load(library: Option<&Path>) -> Result<Self, BackendError> {
        let path = library.map_or_else(find_library, Path::to_owned);
        let library = |detail: String| BackendError::Library {
            detail: format!("{}: {detail}", path.display()),
        };
        let environment = ort::init_from(&path)
            .map_err(|error| library(error.to_string()))?
            .with_name("facescan")
            .with_telemetry(false)
            .build()
            .map_err(|error| library(error.to_string()))?;
        Ok(Self { environment })
    }

    fn session(
        &self,
        path: &Path,
        threads: NonZeroUsize,
        weights: &PrepackedWeights,
    ) -> Result<OrtSession, String> {
        // Without a device policy the runtime may pick any provider it finds; the CPU is what the
        // toggle asked for. Spinning would burn a core between runs that the decoders need.
        OrtSession::builder(&self.environment)
            .map_err(|error| error.to_string())?
            .with_auto_device(AutoDevicePolicy::PreferCPU)
            .map_err(|error| error.to_string())?
            .with_optimization_level(GraphOptimizationLevel::All)
            .map_err(|error| error.to_string())?
            .with_prepacked_weights(weights)
            .map_err(|error| error.to_string())?
            .with_intra_threads(threads.get())
            .map_err(|error| error.to_string())?
            .with_intra_op_spinning(false)
            .map_err(|error| error.to_string())?
            .commit_from_file(path)
            .map_err(|error| error.to_string())
    }
}

impl Backend for OrtBackend {
    fn name(&self) -> &str {
        "onnxruntime"
    }

    fn open(
        &self,
        path: &Path,
        threads: NonZeroUsize,
        count: usize,
    ) -> Result<Vec<Box<dyn Session>>, BackendError> {
        let failed = |detail| BackendError::Load {
            path: path.to_owned(),
            detail,
        };
        let weights = PrepackedWeights::new();
        (0..count)
            .map(|_| {
                let session = self.session(path, threads, &weights).map_err(failed)?;
                let loaded = Loaded::new(session).map_err(|error| failed(error.to_string()))?;
                Ok(Box::new(loaded) as Box<dyn Session>)
            })
            .collect()
    }
}

struct Loaded {
    session: OrtSession,
    signature: Signature,
    options: RunOptions,
    freeing: RunOptions,
}

impl Loaded {
    fn new(session: OrtSession) -> ort::Result<Self> {
        let mut freeing = RunOptions::new()?;
        freeing.set(ARENA_SHRINKAGE.0, ARENA_SHRINKAGE.1)?;
        Ok(Self {
            signature: Signature {
                inputs: session.inputs().iter().map(port).collect(),
                outputs: session.outputs().iter().map(port).collect(),
            },
            session,
            options: RunOptions::new()?,
            freeing,
        })
    }
}

impl Session for Loaded {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        self.outputs(batch).map_err(|error| BackendError::Run {
            detail: error.to_string(),
        })
    }
}

impl Loaded {
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

/// The first library that exists of: `ORT_DYLIB_PATH`, `.runtime/onnxruntime/` below the working
/// directory, the binary's own directory; else the bare name, for the system's loader to find.
fn find_library() -> PathBuf {
    let name = format!(
        "{}onnxruntime{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    if let Some(path) = std::env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let beside_binary = std::env::current_exe()
        .ok()
        .and_then(|binary| Some(binary.parent()?.join(&name)));
    [
        Some(Path::new(".runtime/onnxruntime").join(&name)),
        beside_binary,
    ]
    .into_iter()
    .flatten()
    .find(|path| path.exists())
    .unwrap_or_else(|| name.into())
}
