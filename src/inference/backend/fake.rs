//! A backend without a runtime, for tests: it answers from a closure.

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use super::{Backend, BackendError, Batch, Session};
use crate::inference::tensor::{Signature, Tensor};

/// What a fake session does with a batch.
pub type FakeRun = dyn Fn(Batch<'_>) -> Result<Vec<Tensor>, BackendError> + Send + Sync;

/// Opens every path as the same fake model.
#[derive(Clone)]
pub struct FakeBackend {
    signature: Signature,
    run: Arc<FakeRun>,
}

impl FakeBackend {
    /// A backend whose sessions declare `signature` and answer with `run`.
    pub fn new(
        signature: Signature,
        run: impl Fn(Batch<'_>) -> Result<Vec<Tensor>, BackendError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            signature,
            run: Arc::new(run),
        }
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &str {
        "fake"
    }

    fn open(
        &self,
        _path: &Path,
        _threads: NonZeroUsize,
        count: usize,
    ) -> Result<Vec<Box<dyn Session>>, BackendError> {
        let session = || Box::new(self.clone()) as Box<dyn Session>;
        Ok((0..count).map(|_| session()).collect())
    }
}

impl Session for FakeBackend {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        (self.run)(batch)
    }
}
