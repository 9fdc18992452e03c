//! What runs a model: the trait every backend implements.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::inference::tensor::{Signature, Tensor};

pub mod fake;
pub mod ort;

/// Opens models.
pub trait Backend: Send + Sync {
    /// The backend's name in logs, such as `onnxruntime`.
    fn name(&self) -> &str;

    /// Loads the model file at `path` into `count` sessions of `threads` threads each. They may share the weights.
    ///
    /// # Errors
    /// [`BackendError::Load`] when the file cannot be loaded.
    fn open(
        &self,
        path: &Path,
        threads: NonZeroUsize,
        count: usize,
    ) -> Result<Vec<Box<dyn Session>>, BackendError>;
}

/// A loaded model. It is owned by one thread, which is why `run` takes `&mut self`.
pub trait Session: Send {
    /// The graph's inputs and outputs.
    fn signature(&self) -> &Signature;

    /// Runs a batch through the graph's first input and returns every output in graph order.
    ///
    /// # Errors
    /// [`BackendError::Run`] when the runtime refuses the batch or fails on it.
    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError>;
}

/// Rows for the first input of a graph, row-major: `[rows, …row_shape]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch<'a> {
    /// The shape of one row, such as `[3, 640, 640]`.
    pub row_shape: &'a [usize],
    /// The values of all rows, one row after the other.
    pub data: &'a [f32],
    /// Whether the runtime should let go of memory after the run, because few rows are of this size.
    pub frees_memory: bool,
}

impl Batch<'_> {
    /// How many values one row has.
    pub fn row_len(&self) -> usize {
        self.row_shape.iter().product()
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.data.len().checked_div(self.row_len()).unwrap_or(0)
    }

    /// The batch's full shape.
    pub fn shape(&self) -> Vec<usize> {
        std::iter::once(self.rows())
            .chain(self.row_shape.iter().copied())
            .collect()
    }
}

/// Why a backend could not do what was asked.
#[derive(Debug, Error)]
pub enum BackendError {
    /// The runtime's shared library is missing or does not fit.
    #[error(
        "cannot load the onnx runtime library: {detail}; run `scripts/setup`, or set runtime.library to its path"
    )]
    Library {
        /// What the loader said.
        detail: String,
    },
    /// A model file could not be loaded.
    #[error("cannot load the model file {path}: {detail}")]
    Load {
        /// The file.
        path: PathBuf,
        /// What the runtime said.
        detail: String,
    },
    /// A run failed.
    #[error("the model run failed: {detail}")]
    Run {
        /// What the runtime said.
        detail: String,
    },
}
