//! An engine: one model, the rows that wait for it, and the sessions that run it.
//!
//! Rows of many requests run together. A caller claims a row, writes its pixels straight into the staging memory and
//! commits it; the answer comes with the index of its row in the batch that it ran in.
//!
//! Every engine has sessions on the CPU (`cpu`), and may have a device (`device`). Rows go to the device while it is
//! up; those that it fails on run on the CPU, from the same memory.

use std::{
    collections::VecDeque,
    ops::Range,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};

use crate::metrics::EngineMetrics;
use crate::pool::CpuPool;
use crate::{
    backend::BackendError,
    batcher::{Batcher, Groupings, Place, Reply, Route, Staged},
    health::{Fault, Health},
    place,
    slab::RowMemory,
    tensor::Tensor,
};
use facescan_clock::Clock;

pub use crate::batcher::{Grouping, Sizes};
pub use cpu::{Reserve, Sessions};
pub use device::{DeviceParts, Opener};

use cpu::CpuSessions;

mod cpu;
pub(super) mod device;

/// Slabs kept for reuse may take this much in all, in bytes, where the sessions' own need is less.
const SPARE_BYTES: usize = 16 << 20;

/// Runs rows of many requests on one model. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// What an engine is made of.
pub struct EngineParts {
    /// The sessions on the CPU, all of one model.
    pub sessions: Sessions,
    /// How rows are grouped there.
    pub grouping: Grouping,
    /// The device that rows go to while it is up.
    pub device: Option<DeviceParts>,
    /// How many values the usual row has. Memory of larger ones is not kept.
    pub usual_row_len: usize,
    /// Where the CPU's sessions run.
    pub pool: Arc<CpuPool>,
    /// Times the stages.
    pub clock: Arc<dyn Clock>,
    /// Counts rows and batches.
    pub metrics: Arc<dyn EngineMetrics>,
}

struct Shared {
    batcher: Mutex<Batcher<Answer>>,
    /// Rows that are cut to run on the CPU, and wait for a session there.
    pieces: Mutex<VecDeque<Piece>>,
    sessions: Mutex<CpuSessions>,
    groupings: Groupings,
    device: Option<DeviceLink>,
    /// Where the sessions on the CPU were opened.
    cpu_place: place::Place,
    pool: Arc<CpuPool>,
    clock: Arc<dyn Clock>,
    metrics: Arc<dyn EngineMetrics>,
    /// For the timer of a delay, which rows set from threads outside the runtime.
    runtime: Handle,
}

/// What the rest of the engine knows of its device.
struct DeviceLink {
    /// Tells the device's task that rows may be due, or that the engine has gone.
    wake: Arc<Notify>,
    health: Arc<Health>,
    place: place::Place,
}

/// Why an engine did not answer.
#[derive(Clone, Debug, Error)]
pub enum EngineError {
    /// The run failed.
    #[error(transparent)]
    Backend(#[from] Arc<BackendError>),
    /// The engine has stopped.
    #[error("the inference engine has stopped; restart the server")]
    Stopped,
}

/// A row's answer: the outputs of the batch it ran in, and which row of it is its own.
#[derive(Clone, Debug)]
pub struct RowOutput {
    /// The graph's outputs; their first dimension is the number of rows that ran.
    pub outputs: Arc<[Tensor]>,
    /// The row's index in them.
    pub row: usize,
    /// Time between the row's commit and its run.
    pub queued: Duration,
    /// Time spent running.
    pub ran: Duration,
    /// Why the row ran on the CPU although the engine has a device.
    pub fallback: Option<Fault>,
    /// Where the row ran.
    pub ran_on: place::Place,
}

/// Rows of a slab that run together, and who waits for them.
struct Piece {
    staged: Arc<Staged>,
    rows: Range<usize>,
    /// One for each row, and since when it waits.
    callers: Vec<(Answer, Duration)>,
    fallback: Option<Fault>,
}

struct Answer(oneshot::Sender<Result<RowOutput, EngineError>>);

impl Reply for Answer {
    fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}

impl Engine {
    /// An engine over `parts`. To be called within the async runtime.
    pub fn start(parts: EngineParts) -> Self {
        let groupings = Groupings {
            cpu: parts.grouping,
            device: parts.device.as_ref().map(|device| device.grouping),
        };
        let slab_bytes = parts.grouping.max_rows.get() * parts.usual_row_len * size_of::<f32>();
        let in_use = 2 * (parts.sessions.narrow.len() + 1);
        let spare = in_use.max(SPARE_BYTES / slab_bytes.max(1));
        let wake = Arc::new(Notify::new());
        let shared = Arc::new(Shared {
            batcher: Mutex::new(Batcher::new(groupings, spare, parts.usual_row_len)),
            pieces: Mutex::default(),
            cpu_place: parts.sessions.place,
            sessions: Mutex::new(CpuSessions::new(parts.sessions)),
            groupings,
            device: parts.device.as_ref().map(|device| DeviceLink {
                wake: Arc::clone(&wake),
                health: Arc::clone(&device.health),
                place: device.place,
            }),
            pool: parts.pool,
            clock: parts.clock,
            metrics: parts.metrics,
            runtime: Handle::current(),
        });
        if let Some(device) = parts.device {
            tokio::spawn(device::drive(Arc::downgrade(&shared), device, wake));
        }
        Self { shared }
    }

    /// Where a row that is committed now would run: on the device while it is up, and on the CPU otherwise.
    ///
    /// The row may still run elsewhere. [`RowOutput::ran_on`] says where it did.
    pub fn current_place(&self) -> place::Place {
        match &self.shared.device {
            Some(device) if device.health.is_up() => device.place,
            _ => self.shared.cpu_place,
        }
    }

    /// A row of the open slab, to be written at once: the slab cannot run before.
    pub fn claim(&self, row_shape: &[usize]) -> Row {
        let now = self.shared.clock.monotonic();
        let (place, memory) = self.shared.batcher().claim(row_shape, now);
        Row {
            shared: Arc::clone(&self.shared),
            claimed: Some((place, memory)),
        }
    }
}

/// A claimed row. Dropping it gives it up.
pub struct Row {
    shared: Arc<Shared>,
    /// Gone once committed.
    claimed: Option<(Place, RowMemory)>,
}

impl Row {
    /// The row's values, to be written all: an earlier row may have left its own there.
    pub fn values(&mut self) -> &mut [f32] {
        match &mut self.claimed {
            Some((_, memory)) => memory.values(),
            None => &mut [],
        }
    }

    /// Lets the row run. The future resolves to its answer; dropping it before the run begins takes the row out.
    pub fn commit(self) -> Pending {
        self.commit_as(Turn::Queued)
    }

    /// The same as the last thing that a job of the pool does: its thread runs the row next, unless a device does.
    pub fn commit_last(self) -> Pending {
        self.commit_as(Turn::Next)
    }

    fn commit_as(mut self, turn: Turn) -> Pending {
        let (reply, answer) = oneshot::channel();
        if let Some((place, memory)) = self.claimed.take() {
            let shared = &self.shared;
            let now = shared.clock.monotonic();
            let route = {
                let mut batcher = shared.batcher();
                batcher.ready(&place, memory, Answer(reply), now);
                batcher.route()
            };
            shared.call(route, turn);
        }
        Pending(answer)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if let Some((place, memory)) = self.claimed.take() {
            let route = {
                let mut batcher = self.shared.batcher();
                batcher.give_up(&place, memory);
                batcher.route()
            };
            // The rest of its slab may have waited for this row only.
            self.shared.call(route, Turn::Queued);
        }
    }
}

/// When the pool runs a row.
#[derive(Clone, Copy)]
enum Turn {
    /// When a thread gets to it.
    Queued,
    /// When the job that committed it ends, on the same thread.
    Next,
}

/// The answer to come of a committed row.
pub struct Pending(oneshot::Receiver<Result<RowOutput, EngineError>>);

impl Future for Pending {
    type Output = Result<RowOutput, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|answer| answer.unwrap_or(Err(EngineError::Stopped)))
    }
}

impl Shared {
    fn batcher(&self) -> MutexGuard<'_, Batcher<Answer>> {
        // Its methods run to their end: no caller's code is called with it held.
        self.batcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls whoever runs the rows that go this way, now and, where slabs may wait to fill, when the wait is over.
    ///
    /// Rows that were claimed for the device may find that it has gone down meanwhile; then both are called.
    fn call(self: &Arc<Self>, route: Route, turn: Turn) {
        self.call_now(route, turn);
        let delay = match (route, self.groupings.device) {
            (Route::Device, Some(device)) => device.max_delay,
            _ => self.groupings.cpu.max_delay,
        };
        if !delay.is_zero() {
            let shared = Arc::clone(self);
            self.runtime.spawn(async move {
                tokio::time::sleep(delay).await;
                shared.call_now(route, Turn::Queued);
            });
        }
    }

    fn call_now(self: &Arc<Self>, route: Route, turn: Turn) {
        if let Some(device) = &self.device {
            device.wake.notify_one();
        }
        match (route, turn) {
            (Route::Device, _) => {}
            (Route::Cpu, Turn::Queued) => self.queue_turn(),
            (Route::Cpu, Turn::Next) => self.turn_next(),
        }
    }

    /// Gives each row of a piece its answer.
    fn answer(&self, piece: Piece, outcome: Outcome, times: Times) {
        for (index, (Answer(reply), ready_at)) in piece.callers.into_iter().enumerate() {
            let answer = match &outcome {
                Ok(outputs) => Ok(RowOutput {
                    outputs: Arc::clone(outputs),
                    row: index,
                    queued: times.started_at.saturating_sub(ready_at),
                    ran: times.ran,
                    fallback: piece.fallback,
                    ran_on: times.ran_on,
                }),
                Err(error) => Err(EngineError::Backend(Arc::clone(error))),
            };
            // A caller that left during the run has no use for the answer.
            drop(reply.send(answer));
        }
        if let Some(staged) = Arc::into_inner(piece.staged) {
            self.batcher().keep(staged);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            device.wake.notify_one();
        }
    }
}

/// The outputs of a run, with the rows first.
type Outcome = Result<Arc<[Tensor]>, Arc<BackendError>>;

/// Where a run was, when it began and how long it took.
#[derive(Clone, Copy)]
struct Times {
    ran_on: place::Place,
    started_at: Duration,
    ran: Duration,
}

/// Brings outputs of `rows` rows into the form that answers have.
fn in_rows(outputs: Vec<Tensor>, rows: usize) -> Arc<[Tensor]> {
    outputs
        .into_iter()
        .map(|output| output.into_rows(rows))
        .collect()
}

#[cfg(test)]
mod tests;
