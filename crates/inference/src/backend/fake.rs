//! A backend without a runtime, for tests. A closure computes the outputs and decides which devices fail.

use std::sync::Arc;

use super::{Backend, BackendError, Batch, Model, Opening, Session};
use crate::{
    graphs::session::GraphSession,
    placement::DevicePlacement,
    proof,
    tensor::{Signature, Tensor},
};

/// What a fake session does with a batch.
pub type FakeRun =
    dyn Fn(DevicePlacement, Batch<'_>) -> Result<Vec<Tensor>, BackendError> + Send + Sync;

/// Decides whether a fake placement is available.
pub type FakeAvailability = dyn Fn(DevicePlacement) -> Result<(), BackendError> + Send + Sync;

/// Opens every file as the same fake model. A graph in memory is the self-test graph, whose outputs are correct.
#[derive(Clone)]
pub struct FakeBackend {
    signature: Signature,
    run: Arc<FakeRun>,
    look: Arc<FakeAvailability>,
}

struct FakeSession {
    backend: FakeBackend,
    placement: DevicePlacement,
    is_known: bool,
}

impl FakeBackend {
    /// Creates a backend whose sessions declare `signature` and compute their outputs with `run` at every placement.
    pub fn new(
        signature: Signature,
        run: impl Fn(Batch<'_>) -> Result<Vec<Tensor>, BackendError> + Send + Sync + 'static,
    ) -> Self {
        Self::with_placements(signature, move |_, batch| run(batch))
    }

    /// Creates a backend like [`new`](Self::new), with outputs that depend on the placement.
    pub fn with_placements(
        signature: Signature,
        run: impl Fn(DevicePlacement, Batch<'_>) -> Result<Vec<Tensor>, BackendError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            signature,
            run: Arc::new(run),
            look: Arc::new(|_| Ok(())),
        }
    }

    /// Makes some placements unavailable.
    #[must_use]
    pub fn with_availability(
        self,
        look: impl Fn(DevicePlacement) -> Result<(), BackendError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            look: Arc::new(look),
            ..self
        }
    }

    /// Returns `count` sessions on the CPU.
    pub fn on_cpu(&self, count: usize) -> Vec<Box<dyn Session>> {
        (0..count)
            .map(|_| self.session(DevicePlacement::CPU, false))
            .collect()
    }

    /// Returns a session at a placement. With `is_known`, it computes the self-test graph.
    pub fn session(&self, placement: DevicePlacement, is_known: bool) -> Box<dyn Session> {
        Box::new(FakeSession {
            backend: self.clone(),
            placement,
            is_known,
        })
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &str {
        "fake"
    }

    fn check_available(&self, placement: DevicePlacement) -> Result<(), BackendError> {
        (self.look)(placement)
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError> {
        let is_known = matches!(opening.model, Model::Graph(_));
        Ok((0..opening.count)
            .map(|_| self.session(opening.placement, is_known))
            .collect())
    }

    fn open_graph(&self, _opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        Err(BackendError::unavailable("the fake backend runs no graphs"))
    }
}

impl Session for FakeSession {
    fn signature(&self) -> &Signature {
        &self.backend.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        if self.is_known {
            Ok(proof::expected_outputs(batch))
        } else {
            (self.backend.run)(self.placement, batch)
        }
    }
}
