//! ONNX Runtime through the `ort` crate, loaded at run time from a shared library.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use ort::{
    environment::Environment,
    session::{
        Session as OrtSession,
        builder::{AutoDevicePolicy, GraphOptimizationLevel},
    },
    value::{Outlet, TensorElementType, TensorRef, ValueType},
};

use super::{Backend, BackendError, Batch, Session};
use crate::inference::tensor::{Port, Signature, Tensor};

/// Where the runtime library is and how many threads a session may use.
#[derive(Clone, Debug)]
pub struct OrtSettings {
    /// The library named in the settings; searched for when `None`.
    pub library: Option<PathBuf>,
    /// Threads within one run.
    pub intra_threads: NonZeroUsize,
}

/// The runtime, loaded once for the process.
pub struct OrtBackend {
    environment: Environment,
    intra_threads: usize,
}

impl OrtBackend {
    /// Loads the runtime library. [`crate::telemetry::opt_out`] must have run before, or the library reports its use.
    ///
    /// # Errors
    /// [`BackendError::Library`] when there is none or it does not fit.
    pub fn load(settings: &OrtSettings) -> Result<Self, BackendError> {
        let path = match &settings.library {
            Some(path) => path.clone(),
            None => find_library(),
        };
        let library = |detail: String| BackendError::Library {
            detail: format!("{}: {detail}", path.display()),
        };
        let environment = ort::init_from(&path)
            .map_err(|error| library(error.to_string()))?
            .with_name("facescan")
            .with_telemetry(false)
            .build()
            .map_err(|error| library(error.to_string()))?;
        Ok(Self {
            environment,
            intra_threads: settings.intra_threads.get(),
        })
    }

    fn session(&self, path: &Path) -> Result<OrtSession, String> {
        // Without a device policy the runtime may pick any provider it finds; the CPU is what the
        // toggle asked for. Spinning would burn a core between runs that the decoders need.
        OrtSession::builder(&self.environment)
            .map_err(|error| error.to_string())?
            .with_auto_device(AutoDevicePolicy::PreferCPU)
            .map_err(|error| error.to_string())?
            .with_optimization_level(GraphOptimizationLevel::All)
            .map_err(|error| error.to_string())?
            .with_intra_threads(self.intra_threads)
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

    fn open(&self, path: &Path) -> Result<Box<dyn Session>, BackendError> {
        let session = self.session(path).map_err(|detail| BackendError::Load {
            path: path.to_owned(),
            detail,
        })?;
        let signature = Signature {
            inputs: session.inputs().iter().map(port).collect(),
            outputs: session.outputs().iter().map(port).collect(),
        };
        Ok(Box::new(Loaded { session, signature }))
    }
}

struct Loaded {
    session: OrtSession,
    signature: Signature,
}

impl Session for Loaded {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, batch: &Batch) -> Result<Vec<Tensor>, BackendError> {
        run(&mut self.session, &self.signature, batch).map_err(|error| BackendError::Run {
            detail: error.to_string(),
        })
    }
}

fn run(session: &mut OrtSession, signature: &Signature, batch: &Batch) -> ort::Result<Vec<Tensor>> {
    let input = TensorRef::from_array_view((batch.shape(), batch.data.as_slice()))?;
    let outputs = session.run(ort::inputs![input])?;
    signature
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
