//! A backend without a runtime, for tests: it answers from a closure, and devices fail as they are told to.

use std::sync::Arc;

use super::{Backend, BackendError, Batch, Model, Opening, Session};
use crate::{
    graphs::session::GraphSession,
    place::Place,
    proof,
    tensor::{Signature, Tensor},
};

/// What a fake session does with a batch.
pub type FakeRun = dyn Fn(Place, Batch<'_>) -> Result<Vec<Tensor>, BackendError> + Send + Sync;

/// What a fake backend says of a place.
pub type FakeLook = dyn Fn(Place) -> Result<(), BackendError> + Send + Sync;

/// Opens every file as the same fake model. A graph in memory is the one that places are proved with, and is answered
/// right.
#[derive(Clone)]
pub struct FakeBackend {
    signature: Signature,
    run: Arc<FakeRun>,
    look: Arc<FakeLook>,
}

struct FakeSession {
    backend: FakeBackend,
    place: Place,
    is_known: bool,
}

impl FakeBackend {
    /// A backend whose sessions declare `signature` and answer with `run`, wherever they are.
    pub fn new(
        signature: Signature,
        run: impl Fn(Batch<'_>) -> Result<Vec<Tensor>, BackendError> + Send + Sync + 'static,
    ) -> Self {
        Self::with_places(signature, move |_, batch| run(batch))
    }

    /// The same where the answer depends on the place.
    pub fn with_places(
        signature: Signature,
        run: impl Fn(Place, Batch<'_>) -> Result<Vec<Tensor>, BackendError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            signature,
            run: Arc::new(run),
            look: Arc::new(|_| Ok(())),
        }
    }

    /// The same with places that may be missing.
    #[must_use]
    pub fn looking(
        self,
        look: impl Fn(Place) -> Result<(), BackendError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            look: Arc::new(look),
            ..self
        }
    }

    /// Sessions on the CPU.
    pub fn on_cpu(&self, count: usize) -> Vec<Box<dyn Session>> {
        (0..count)
            .map(|_| self.session(Place::CPU, false))
            .collect()
    }

    /// A session at a place.
    pub fn session(&self, place: Place, is_known: bool) -> Box<dyn Session> {
        Box::new(FakeSession {
            backend: self.clone(),
            place,
            is_known,
        })
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &str {
        "fake"
    }

    fn look_for(&self, place: Place) -> Result<(), BackendError> {
        (self.look)(place)
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError> {
        let is_known = matches!(opening.model, Model::Graph(_));
        Ok((0..opening.count)
            .map(|_| self.session(opening.place, is_known))
            .collect())
    }

    fn open_graph(&self, _opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        Err(BackendError::Unavailable {
            detail: "the fake backend runs no graphs".to_owned(),
        })
    }
}

impl Session for FakeSession {
    fn signature(&self) -> &Signature {
        &self.backend.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        if self.is_known {
            Ok(proof::known_answer(batch))
        } else {
            (self.backend.run)(self.place, batch)
        }
    }
}
