//! The trait that every model runtime implements.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;

use crate::{
    graphs::session::{GraphModel, GraphSession},
    placement::DevicePlacement,
    tensor::{Signature, Tensor},
};

pub mod combined;
pub mod fake;
pub mod kserve;
pub mod openvino;
pub mod ort;
#[cfg(feature = "torch")]
pub mod torch;

/// Opens models.
pub trait Backend: Send + Sync {
    /// Returns the backend's name in logs, such as `onnxruntime`.
    fn name(&self) -> &str;

    /// Checks whether this machine has the provider and the device, before any model is opened there.
    ///
    /// # Errors
    /// Returns [`BackendError::Unavailable`] if the provider or the device is missing. The error says what is missing.
    fn check_available(&self, placement: DevicePlacement) -> Result<(), BackendError>;

    /// Loads a model into the number of sessions in `opening`. The sessions may share the weights.
    ///
    /// # Errors
    /// Returns [`BackendError::Load`] if the model cannot be loaded, [`BackendError::Unavailable`] if the placement
    /// cannot be used, and [`BackendError::OutOfMemory`] if the device has too little memory.
    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError>;

    /// Loads a built-in graph, whose inputs can have several types, into one session.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open).
    fn open_graph(&self, opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError>;
}

/// The model to open, its placement and its resources.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The model.
    pub model: Model<'a>,
    /// Where to open it.
    pub placement: DevicePlacement,
    /// The number of CPU threads of each session.
    pub threads: NonZeroUsize,
    /// The number of sessions.
    pub count: usize,
    /// The maximum number of bytes of device memory per session.
    pub memory_limit: Option<u64>,
    /// Whether sessions on the CPU keep memory for the next run. It makes runs a little faster.
    pub keeps_memory: bool,
}

impl<'a> Opening<'a> {
    /// Requests `count` sessions of `threads` threads each on the CPU.
    pub fn on_cpu(model: Model<'a>, threads: NonZeroUsize, count: usize) -> Self {
        Self {
            model,
            placement: DevicePlacement::CPU,
            threads,
            count,
            memory_limit: None,
            keeps_memory: true,
        }
    }
}

/// A model to open.
#[derive(Clone, Copy, Debug)]
pub enum Model<'a> {
    /// A file.
    File(&'a Path),
    /// A built-in graph.
    Graph(&'a GraphModel),
}

impl Model<'_> {
    /// Returns the name in error messages.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.to_path_buf(),
            Self::Graph(graph) => PathBuf::from(format!("(the built-in graph `{}`)", graph.name)),
        }
    }
}

/// Ends a run from another thread. The run then fails.
pub type Stop = Arc<dyn Fn() + Send + Sync>;

/// A loaded model. One thread at a time owns it, so `run` takes `&mut self`.
pub trait Session: Send {
    /// Returns the graph's inputs and outputs.
    fn signature(&self) -> &Signature;

    /// Runs a batch through the graph's first input and returns every output in graph order.
    ///
    /// # Errors
    /// Returns [`BackendError::Run`] if the runtime refuses the batch or fails on it, and [`BackendError::OutOfMemory`]
    /// if the device has too little memory.
    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError>;

    /// Returns what ends the next run that frees memory, or `None` if the runtime cannot end a run.
    fn stop(&mut self) -> Option<Stop> {
        None
    }

    /// Returns the number of the graph's nodes on each provider, by the runtime's names. The result is empty if the
    /// runtime does not report it.
    fn assignment(&self) -> BTreeMap<String, usize> {
        BTreeMap::new()
    }
}

/// Rows for the first input of a graph, row-major: `[rows, …row_shape]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch<'a> {
    /// The shape of one row, such as `[3, 640, 640]`.
    pub row_shape: &'a [usize],
    /// The values of all rows, one row after the other.
    pub data: &'a [f32],
    /// Whether the runtime should free memory after the run, because few rows have this size.
    pub frees_memory: bool,
}

impl<'a> Batch<'a> {
    /// Creates a batch after which the runtime keeps its memory.
    pub fn new(row_shape: &'a [usize], data: &'a [f32]) -> Self {
        Self {
            row_shape,
            data,
            frees_memory: false,
        }
    }

    /// Returns the number of values in one row.
    pub fn row_len(&self) -> usize {
        self.row_shape.iter().product()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.data.len().checked_div(self.row_len()).unwrap_or(0)
    }

    /// Returns the batch's full shape.
    pub fn shape(&self) -> Vec<usize> {
        std::iter::once(self.rows())
            .chain(self.row_shape.iter().copied())
            .collect()
    }
}

/// Returns whether a runtime reports that memory ran out. The runtimes have no error code for this, so the function
/// looks for the messages of ONNX Runtime's arena (with and without a limit), CUDA with its libraries, HIP and OpenVINO.
fn is_out_of_memory(detail: &str) -> bool {
    let detail = detail.to_ascii_lowercase();
    [
        "out of memory",
        "out_of_memory",
        "outofmemory",
        "failed to allocate memory",
        "allocation failed",
        "allocation_failed",
        "alloc_failed",
        "is smaller than requested bytes",
        "memoryallocation",
        "bad_alloc",
    ]
    .iter()
    .any(|words| detail.contains(words))
}

/// Classifies a failure to open a model: out of memory, or a fault of the model.
fn open_failure(opening: &Opening<'_>, detail: String) -> BackendError {
    if is_out_of_memory(&detail) {
        BackendError::OutOfMemory(detail)
    } else {
        BackendError::Load {
            path: opening.model.path(),
            detail,
        }
    }
}

/// Classifies a failed run: out of memory, or another failure.
fn run_failure(detail: String) -> BackendError {
    if is_out_of_memory(&detail) {
        BackendError::OutOfMemory(detail)
    } else {
        BackendError::Run(detail)
    }
}

/// The reason why a backend failed.
#[derive(Debug, Error)]
pub enum BackendError {
    /// The runtime's shared library is missing or has the wrong version.
    #[error(
        "cannot load the onnx runtime library: {0}; run `scripts/setup`, or set runtime.library to its path"
    )]
    Library(String),
    /// A provider or its device is missing. The message says how to get it.
    #[error("{0}")]
    Unavailable(String),
    /// The device has no memory left for the request.
    #[error("the device is out of memory: {0}")]
    OutOfMemory(String),
    /// A model file could not be loaded.
    #[error("cannot load the model file {path}: {detail}")]
    Load {
        /// The file.
        path: PathBuf,
        /// What the runtime reported.
        detail: String,
    },
    /// A run failed.
    #[error("the model run failed: {0}")]
    Run(String),
}

impl BackendError {
    /// Returns the error of a run that failed.
    pub fn run(detail: impl Into<String>) -> Self {
        Self::Run(detail.into())
    }

    /// Returns the error of a provider or a device that is missing.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::Unavailable(detail.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_memory_is_distinguished_from_other_failures() {
        for words in [
            "Failed to allocate memory for requested buffer of size 52428800",
            "Available memory of 1048576 is smaller than requested bytes of 52428800",
            "CUDA failure 2: out of memory ; GPU=0",
            "CUBLAS failure 3: the resource allocation failed ; GPU=0 ; expr=cublasCreate(&cublas_handle_);",
            "CUDNN failure 4: CUDNN_STATUS_ALLOC_FAILED",
            "hipErrorOutOfMemory",
            "std::bad_alloc",
        ] {
            assert!(is_out_of_memory(words), "{words}");
        }
        for words in [
            "CUDA failure 700: an illegal memory access was encountered",
            "Got invalid dimensions for input: data",
        ] {
            assert!(!is_out_of_memory(words), "{words}");
        }
    }
}
