//! An engine: one model, the rows that wait for it, and the sessions that run it.
//!
//! Rows of many requests run together. A caller claims a row, writes its pixels straight into the staging memory and
//! commits it; the answer comes with the index of its row in the batch that it ran in.
//!
//! On the CPU the sessions run on the threads of the [`CpuPool`], so that decoding and inference share the cores and
//! never compete for them. There are as many one-thread sessions as the pool has threads, which gives the most rows
//! a second, and one session over all cores, which gives one row the soonest. The wide one is taken when nothing else
//! is to be done. A session is moved out to the thread that runs it and back: it is never shared or locked.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use thiserror::Error;
use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    clock::Clock,
    inference::{
        backend::{BackendError, Batch, Session},
        batcher::{Batcher, Cut, Grouping, Place, Reply},
        slab::RowMemory,
        tensor::Tensor,
    },
    pool::{CpuPool, Stage},
    telemetry::metrics::EngineMetrics,
};

/// Slabs kept for reuse may take this much in all, in bytes, where the sessions' own need is less.
const SPARE_BYTES: usize = 16 << 20;

/// Runs rows of many requests on one model. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// What an engine is made of.
pub struct EngineParts {
    /// The sessions, all of one model.
    pub sessions: Sessions,
    /// How rows are grouped.
    pub grouping: Grouping,
    /// How many values the usual row has. Memory of larger ones is not kept.
    pub usual_row_len: usize,
    /// Where the sessions run.
    pub pool: Arc<CpuPool>,
    /// Times the stages.
    pub clock: Arc<dyn Clock>,
    /// Counts rows and batches.
    pub metrics: EngineMetrics,
}

/// The sessions of one model that run at the same time.
pub struct Sessions {
    /// Each on one thread.
    pub narrow: Vec<Box<dyn Session>>,
    /// One over all cores, for when nothing else is to be done.
    pub wide: Option<Box<dyn Session>>,
}

struct Shared {
    batcher: Mutex<Batcher<Answer>>,
    sessions: Mutex<Sessions>,
    delay: Duration,
    pool: Arc<CpuPool>,
    clock: Arc<dyn Clock>,
    metrics: EngineMetrics,
    /// For the timer of a delay, which rows set from threads outside the runtime.
    runtime: Handle,
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
        let slab_bytes = parts.grouping.max_rows.get() * parts.usual_row_len * size_of::<f32>();
        let in_use = 2 * (parts.sessions.narrow.len() + 1);
        let spare = in_use.max(SPARE_BYTES / slab_bytes.max(1));
        Self {
            shared: Arc::new(Shared {
                batcher: Mutex::new(Batcher::new(parts.grouping, spare, parts.usual_row_len)),
                sessions: Mutex::new(parts.sessions),
                delay: parts.grouping.max_delay,
                pool: parts.pool,
                clock: parts.clock,
                metrics: parts.metrics,
                runtime: Handle::current(),
            }),
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
    pub fn commit(mut self) -> Pending {
        let (reply, answer) = oneshot::channel();
        if let Some((place, memory)) = self.claimed.take() {
            let shared = &self.shared;
            let now = shared.clock.monotonic();
            shared.batcher().ready(&place, memory, Answer(reply), now);
            shared.call_for_turn();
        }
        Pending(answer)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if let Some((place, memory)) = self.claimed.take() {
            self.shared.batcher().give_up(&place, memory);
            // The rest of its slab may have waited for this row only.
            self.shared.call_for_turn();
        }
    }
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

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a turn, now and, where slabs may wait to fill, when the wait is over.
    fn call_for_turn(self: &Arc<Self>) {
        self.queue_turn();
        if !self.delay.is_zero() {
            let (shared, delay) = (Arc::clone(self), self.delay);
            self.runtime.spawn(async move {
                tokio::time::sleep(delay).await;
                shared.queue_turn();
            });
        }
    }

    fn queue_turn(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.pool.spawn(Stage::Infer, move || shared.turn());
    }

    /// Runs the oldest slab that is due on a free session, on this thread.
    fn turn(self: &Arc<Self>) {
        let Some(session) = self.take_session() else {
            // All are running, and whoever ends first looks again.
            return;
        };
        let look = {
            let now = self.clock.monotonic();
            self.batcher().look(now)
        };
        self.metrics.skipped(look.skipped);
        let session = match look.cut {
            Some(cut) => self.run(session, cut),
            None => session,
        };
        self.put_back(session);
        let is_more_due = self.batcher().is_due(self.clock.monotonic());
        if is_more_due {
            self.queue_turn();
        }
    }

    /// The wide session when this row is all there is to do; otherwise a narrow one.
    fn take_session(&self) -> Option<Taken> {
        let is_alone = self.pool.is_quiet() && self.batcher().waiting() == 1;
        let mut sessions = self.sessions();
        if is_alone && let Some(session) = sessions.wide.take() {
            return Some(Taken::Wide(session));
        }
        sessions.narrow.pop().map(Taken::Narrow)
    }

    fn put_back(&self, session: Taken) {
        let mut sessions = self.sessions();
        match session {
            Taken::Wide(session) => sessions.wide = Some(session),
            Taken::Narrow(session) => sessions.narrow.push(session),
        }
    }

    fn run(&self, mut session: Taken, cut: Cut<Answer>) -> Taken {
        let started_at = self.clock.monotonic();
        let batch = Batch {
            row_shape: &cut.shape,
            data: cut.slab.values(cut.rows),
            frees_memory: cut.unusual,
        };
        let ran = catch_unwind(AssertUnwindSafe(|| session.get().run(batch)));
        let outcome = ran
            .unwrap_or_else(|_| {
                Err(BackendError::Run {
                    detail: "the runtime panicked".to_owned(),
                })
            })
            .map(|outputs| -> Arc<[Tensor]> {
                outputs
                    .into_iter()
                    .map(|output| output.into_rows(cut.rows))
                    .collect()
            })
            .map_err(Arc::new);
        let ran = self.clock.monotonic().saturating_sub(started_at);
        self.metrics.ran(cut.callers.len(), ran);
        for (row, (Answer(reply), ready_at)) in cut.callers.into_iter().enumerate() {
            let answer = match &outcome {
                Ok(outputs) => Ok(RowOutput {
                    outputs: Arc::clone(outputs),
                    row,
                    queued: started_at.saturating_sub(ready_at),
                    ran,
                }),
                Err(error) => Err(EngineError::Backend(Arc::clone(error))),
            };
            // A caller that left during the run has no use for the answer.
            drop(reply.send(answer));
        }
        self.batcher().keep(cut.shape, cut.slab);
        session
    }
}

enum Taken {
    Wide(Box<dyn Session>),
    Narrow(Box<dyn Session>),
}

impl Taken {
    fn get(&mut self) -> &mut dyn Session {
        match self {
            Self::Wide(session) | Self::Narrow(session) => session.as_mut(),
        }
    }
}

#[cfg(test)]
mod tests;
