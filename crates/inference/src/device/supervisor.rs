//! Supervises one device for the batching engine and for whole images.
//!
//! A worker thread owns the device's session. A job that exceeds its time budget loses its worker: a new thread opens
//! a new session. A job that fails also replaces the session, which may be corrupt, unless the device only ran out of
//! memory. Repeated failures, a hang and a wrong result take the device down. A background task then opens a new
//! session and runs a health probe, with growing pauses, until the probe succeeds.

use std::{
    num::NonZeroU64,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
};
use tracing::Span;

use super::worker::Worker;
use crate::{
    backend::BackendError,
    health::{Failure, Fault, Health},
    placement::DevicePlacement,
};
use facescan_clock::Clock;

mod recovery;

/// Factor on the run timeout for the first run of a shape, because the runtime may compile the graph for it.
pub(crate) const FIRST_RUN_FACTOR: u32 = 12;

/// The number of shapes that are remembered.
const REMEMBERED_SHAPES: usize = 256;

/// Runs work with known results on a session. Returns the lowest cosine between the results and the expected ones.
pub(crate) type ProbeFn<S> = Arc<dyn Fn(&mut S) -> Result<f64, Failure> + Send + Sync>;

/// What a runtime may compile a graph for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeKey {
    /// The graph's name. Several graphs can share a device, and a run of one does not warm up another.
    pub graph: &'static str,
    /// The numbers that determine the shapes of the graph's inputs and outputs, such as widths and heights.
    pub lengths: Vec<u32>,
}

/// The parts of a supervisor.
pub(crate) struct SupervisorParts<S> {
    pub placement: DevicePlacement,
    /// Opens another session on the device.
    pub open: Arc<dyn Fn() -> Result<S, BackendError> + Send + Sync>,
    pub health: Arc<Health>,
    /// Decides whether a device that is down can be used again.
    pub probe: ProbeFn<S>,
    /// Time budget of a run. The first run of a shape gets [`FIRST_RUN_FACTOR`] times as long.
    pub run_timeout: Duration,
    /// Every `check_every`th run is compared with the CPU.
    pub check_every: Option<NonZeroU64>,
    pub clock: Arc<dyn Clock>,
    /// Notified when the device goes down and when it comes back.
    pub changed: Arc<Notify>,
}

/// Runs jobs on one device and decides whether the device can be used.
pub(crate) struct Supervisor<S> {
    parts: SupervisorParts<S>,
    state: Mutex<State<S>>,
    runtime: Handle,
}

struct State<S> {
    /// `None` while the device is down.
    slot: Option<Arc<WorkerSlot<S>>>,
    /// Shapes that have run on the current session.
    seen: Vec<ShapeKey>,
    runs: u64,
}

/// A worker thread that runs one job at a time, so that a job's time budget does not cover other jobs.
pub(crate) struct WorkerSlot<S> {
    worker: Worker<S>,
    dispatch: Arc<Semaphore>,
}

/// Permission to run one job on a worker slot.
pub(crate) struct Dispatch<S> {
    slot: Arc<WorkerSlot<S>>,
    permit: OwnedSemaphorePermit,
}

impl<S> Dispatch<S> {
    /// Returns the worker slot that the job will run on.
    pub fn slot(&self) -> Arc<WorkerSlot<S>> {
        Arc::clone(&self.slot)
    }
}

impl<S: 'static> Supervisor<S> {
    /// Starts the first worker, which opens its session with `first`. Must be called within the async runtime.
    pub fn start(
        parts: SupervisorParts<S>,
        first: impl FnOnce() -> Result<S, BackendError> + Send + 'static,
    ) -> Arc<Self> {
        let supervisor = Arc::new(Self {
            parts,
            state: Mutex::new(State {
                slot: None,
                seen: Vec::new(),
                runs: 0,
            }),
            runtime: Handle::current(),
        });
        match supervisor.new_slot(first) {
            Ok(slot) => supervisor.state().slot = Some(slot),
            Err(failure) => {
                let now = supervisor.parts.clock.monotonic();
                supervisor.parts.health.stays_down(failure, now);
                supervisor.spawn_recovery();
            }
        }
        supervisor
    }

    pub fn placement(&self) -> DevicePlacement {
        self.parts.placement
    }

    pub fn health(&self) -> &Health {
        &self.parts.health
    }

    /// Waits until the device is free for one job. Returns `None` while the device is down.
    pub async fn acquire(&self) -> Option<Dispatch<S>> {
        loop {
            let slot = self.state().slot.clone()?;
            // The semaphore is closed when another worker replaces this one.
            if let Ok(permit) = Arc::clone(&slot.dispatch).acquire_owned().await {
                return Some(Dispatch { slot, permit });
            }
        }
    }

    /// Runs a job on the device within its time budget and in the caller's span. The caller reports the outcome with
    /// [`succeeded`](Self::succeeded) or [`failed`](Self::failed).
    ///
    /// # Errors
    /// Returns a [`Failure`] if the job fails, panics or hangs.
    pub async fn run<T: Send + 'static>(
        &self,
        dispatch: Dispatch<S>,
        shape: ShapeKey,
        job: impl FnOnce(&mut S) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Dispatch { slot, permit } = dispatch;
        let is_new = !self.state().seen.contains(&shape);
        let time_budget = if is_new {
            self.first_run_timeout()
        } else {
            self.parts.run_timeout
        };
        let span = Span::current();
        let job = move |session: &mut S| {
            // The permit lasts as long as the job, even if the caller leaves.
            let _permit = permit;
            span.in_scope(|| job(session))
        };
        let outcome = slot.worker.run(time_budget, job).await;
        if is_new && outcome.is_ok() {
            self.remember(&slot, shape);
        }
        outcome
    }

    /// Counts a run. Returns whether its result is to be compared with the CPU's.
    pub fn is_check_due(&self) -> bool {
        let Some(every) = self.parts.check_every else {
            return false;
        };
        let mut state = self.state();
        state.runs += 1;
        state.runs.is_multiple_of(every.get())
    }

    /// Records that `rows` rows ran and that their results can be used.
    pub fn succeeded(&self, rows: usize) {
        self.parts.health.ran(rows);
    }

    /// Records a failed run of `rows` rows on `slot`. Replaces the worker or takes the device down.
    pub fn failed(self: &Arc<Self>, slot: &Arc<WorkerSlot<S>>, failure: Failure, rows: usize) {
        let (device, fault) = (self.parts.placement, failure.fault);
        tracing::warn!(%device, fault = fault.name(), reason = %failure.detail, rows, "falling back to the cpu");
        let now = self.parts.clock.monotonic();
        // The lock keeps the worker slot and the breaker consistent.
        let mut state = self.state();
        let is_down = self.parts.health.failed(failure, now);
        let is_current = state.slot.as_ref().is_some_and(|it| Arc::ptr_eq(it, slot));
        let replacement = if is_down {
            None
        } else if !is_current || fault == Fault::OutOfMemory {
            return;
        } else {
            let open = Arc::clone(&self.parts.open);
            self.new_slot(move || open())
                .map_err(|failure| self.parts.health.stays_down(failure, now))
                .ok()
        };
        let goes_down = replacement.is_none() && state.slot.is_some();
        state.install(replacement);
        drop(state);
        if goes_down {
            tracing::error!(%device, "the device is down; its work goes to the cpu until a health probe succeeds");
            self.spawn_recovery();
            self.parts.changed.notify_one();
        }
    }

    fn first_run_timeout(&self) -> Duration {
        self.parts.run_timeout.saturating_mul(FIRST_RUN_FACTOR)
    }

    fn remember(&self, slot: &Arc<WorkerSlot<S>>, shape: ShapeKey) {
        let mut state = self.state();
        let is_current = state.slot.as_ref().is_some_and(|it| Arc::ptr_eq(it, slot));
        if !is_current || state.seen.contains(&shape) {
            return;
        }
        if state.seen.len() == REMEMBERED_SHAPES {
            state.seen.clear();
        }
        state.seen.push(shape);
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        // Every change to the state is a single step, so a panic cannot leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_slot(
        &self,
        open: impl FnOnce() -> Result<S, BackendError> + Send + 'static,
    ) -> Result<Arc<WorkerSlot<S>>, Failure> {
        let worker =
            Worker::start(&self.parts.placement.to_string(), open).map_err(|error| Failure {
                fault: Fault::Failed,
                detail: format!("the device's thread cannot be started: {error}"),
            })?;
        Ok(Arc::new(WorkerSlot {
            worker,
            dispatch: Arc::new(Semaphore::new(1)),
        }))
    }
}

impl<S> State<S> {
    /// Puts another worker, or none, in place of the current one. Jobs that wait for the old worker look again.
    fn install(&mut self, slot: Option<Arc<WorkerSlot<S>>>) {
        self.seen.clear();
        if let Some(old) = std::mem::replace(&mut self.slot, slot) {
            old.dispatch.close();
        }
    }
}

#[cfg(test)]
mod tests;
