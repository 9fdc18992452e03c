//! Runs on a device: one task decides, one thread owns the session.
//!
//! Out of memory: the batch is halved, and a row that finds no room alone runs on the CPU. Any other failure: the same
//! rows run on the CPU, once, and the session is opened anew. Failures in a row, a run that hangs and a wrong answer take
//! the device down; rows go to the CPU then, and the device is probed with rows whose answer is known, again and again
//! with growing pauses, until it answers right.

use std::{
    num::NonZeroU64,
    ops::Range,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};

use super::{Answer, Piece, Shared, Times, in_rows};
use crate::{
    backend::{BackendError, Batch, Session},
    batcher::{Grouping, Route},
    health::{Failure, Fault, Health},
    place::Place,
    proof::{self, Probe},
    tensor::Tensor,
    worker::Worker,
};

/// Opens a session on the device.
pub type Opener = Arc<dyn Fn() -> Result<Box<dyn Session>, BackendError> + Send + Sync>;

/// A first run of a shape may compile it, so it gets so many times the patience of the others.
pub(crate) const FIRST_RUNS: u32 = 12;

/// Good runs after which a batch size that was lowered is tried doubled.
const RUNS_TO_GROW: u32 = 64;

/// How long the CPU may take to repeat a row that is checked.
const CHECK: Duration = Duration::from_secs(30);

/// A device for an engine.
pub struct DeviceParts {
    /// What it is.
    pub place: Place,
    /// Opens another session there, when one is spoilt.
    pub open: Opener,
    /// The first session, proved.
    pub session: Box<dyn Session>,
    /// How rows are grouped for it.
    pub grouping: Grouping,
    /// Its state, for reports.
    pub health: Arc<Health>,
    /// Rows whose answer is known.
    pub probe: Arc<Probe>,
    /// How long a run may take.
    pub run_timeout: Duration,
    /// One batch in so many has a row repeated on the CPU, and compared.
    pub check_every: Option<NonZeroU64>,
    /// Whether an answer that is no number counts against the device. Where no CPU could give another, it counts against
    /// the row that it is the answer to.
    pub must_give_numbers: bool,
}

/// What the task has in hand.
struct Lane {
    place: Place,
    open: Opener,
    worker: Option<Worker<Box<dyn Session>>>,
    grouping: Grouping,
    health: Arc<Health>,
    probe: Arc<Probe>,
    run_timeout: Duration,
    check_every: Option<NonZeroU64>,
    must_give_numbers: bool,
    /// Shapes that have run on the session, rows included.
    seen: Vec<Vec<usize>>,
    runs: u64,
    good_runs: u32,
}

/// Runs an engine's rows on its device until the engine has gone.
pub(super) async fn drive(shared: Weak<Shared>, parts: DeviceParts, wake: Arc<Notify>) {
    let mut lane = Lane {
        place: parts.place,
        worker: None,
        open: parts.open,
        grouping: parts.grouping,
        health: parts.health,
        probe: parts.probe,
        run_timeout: parts.run_timeout,
        check_every: parts.check_every,
        must_give_numbers: parts.must_give_numbers,
        seen: Vec::new(),
        runs: 0,
        good_runs: 0,
    };
    let session = parts.session;
    lane.start(move || Ok(session));
    loop {
        let Some(engine) = shared.upgrade() else {
            return;
        };
        match lane.health.retry_at() {
            None => {
                let look = engine
                    .batcher()
                    .look(Route::Device, engine.clock.monotonic());
                engine.metrics.skipped(look.skipped);
                match look.cut {
                    Some(cut) => {
                        let piece = Piece {
                            rows: 0..cut.callers.len(),
                            staged: Arc::new(cut.staged),
                            callers: cut.callers,
                            fallback: None,
                        };
                        lane.run(&engine, piece).await;
                    }
                    None => {
                        // Without it, so that the engine can go meanwhile.
                        drop(engine);
                        wake.notified().await;
                    }
                }
            }
            Some(at) => {
                let pause = at.saturating_sub(engine.clock.monotonic());
                if pause.is_zero() {
                    lane.try_again(&engine).await;
                } else {
                    drop(engine);
                    // Ends early when the engine has gone.
                    timeout(pause, wake.notified()).await.ok();
                }
            }
        }
    }
}

impl Lane {
    fn start(
        &mut self,
        open: impl FnOnce() -> Result<Box<dyn Session>, BackendError> + Send + 'static,
    ) {
        self.seen.clear();
        self.worker = match Worker::start(&self.place.to_string(), open) {
            Ok(worker) => Some(worker),
            Err(error) => {
                tracing::error!(%error, device = %self.place, "the device's thread cannot be started");
                None
            }
        };
    }

    fn start_anew(&mut self) {
        let open = Arc::clone(&self.open);
        self.start(move || open());
    }

    /// Runs rows in pieces that the device has memory for; what it cannot run, the CPU does.
    async fn run(&mut self, engine: &Arc<Shared>, piece: Piece) {
        let mut waiting = vec![piece];
        while let Some(piece) = waiting.pop() {
            if !self.health.is_up() {
                engine.fall_back(piece, Fault::Down);
                continue;
            }
            let most = self.health.most_rows();
            if piece.callers.len() > most && self.can_divide() {
                let (first, rest) = split(piece, most);
                waiting.extend([rest, first]);
                continue;
            }
            let (started_at, rows) = (engine.clock.monotonic(), self.padded(&piece));
            let outcome = self.run_rows(&piece, rows.clone()).await;
            let ran = engine.clock.monotonic().saturating_sub(started_at);
            let checked = match outcome {
                Ok(outputs) => self.check(engine, &piece, outputs).await,
                Err(failure) => Err(failure),
            };
            match checked {
                Ok(outputs) => {
                    self.went_well(engine, &piece, ran);
                    let outcome = Ok(in_rows(outputs, rows.len()));
                    let times = Times {
                        ran_on: self.place,
                        started_at,
                        ran,
                    };
                    engine.answer(piece, outcome, times);
                }
                Err(failure)
                    if failure.fault == Fault::OutOfMemory
                        && piece.callers.len() > 1
                        && self.can_divide() =>
                {
                    let half = piece.callers.len().div_ceil(2);
                    tracing::warn!(device = %self.place, rows = piece.callers.len(), reason = %failure.detail, "out of memory; the batch is halved");
                    self.good_runs = 0;
                    self.health.limit_rows(half);
                    let (first, rest) = split(piece, half);
                    waiting.extend([rest, first]);
                }
                Err(failure) => self.went_wrong(engine, piece, failure),
            }
        }
    }

    /// Graphs of a fixed batch take no other.
    fn can_divide(&self) -> bool {
        self.grouping.sizes != super::Sizes::Fixed
    }

    /// The rows that run for a piece: some more than it has, where the device wants few shapes.
    fn padded(&self, piece: &Piece) -> Range<usize> {
        let start = piece.rows.start;
        let room = piece.staged.room - start;
        start..start + self.grouping.padded(piece.rows.len(), room)
    }

    async fn run_rows(
        &mut self,
        piece: &Piece,
        rows: Range<usize>,
    ) -> Result<Vec<Tensor>, Failure> {
        let shape: Vec<usize> = std::iter::once(rows.len())
            .chain(piece.staged.shape.iter().copied())
            .collect();
        let is_new = !self.seen.contains(&shape);
        // The thread holds on to the slab for as long as it reads it, whoever has given up on the answer.
        let staged = Arc::clone(&piece.staged);
        let must_give_numbers = self.must_give_numbers;
        let outcome = self
            .order(is_new, move |session| {
                let batch = Batch {
                    row_shape: &staged.shape,
                    data: staged.values(rows),
                    frees_memory: staged.unusual,
                };
                if must_give_numbers {
                    run_checked(session, batch)
                } else {
                    Ok(session.run(batch)?)
                }
            })
            .await;
        if is_new && outcome.is_ok() {
            self.seen.push(shape);
        }
        outcome
    }

    async fn order(
        &self,
        is_new: bool,
        job: impl FnOnce(&mut dyn Session) -> Result<Vec<Tensor>, Failure> + Send + 'static,
    ) -> Result<Vec<Tensor>, Failure> {
        let patience = if is_new {
            self.run_timeout.saturating_mul(FIRST_RUNS)
        } else {
            self.run_timeout
        };
        match &self.worker {
            Some(worker) => {
                let job = |session: &mut Box<dyn Session>| job(session.as_mut());
                worker.run(patience, job).await
            }
            None => Err(Failure {
                fault: Fault::Failed,
                detail: "the device has no thread".to_owned(),
            }),
        }
    }

    /// Repeats the first row of one batch in so many on the CPU.
    async fn check(
        &mut self,
        engine: &Arc<Shared>,
        piece: &Piece,
        outputs: Vec<Tensor>,
    ) -> Result<Vec<Tensor>, Failure> {
        self.runs += 1;
        let is_due = self
            .check_every
            .is_some_and(|every| self.runs.is_multiple_of(every.get()));
        if !is_due {
            return Ok(outputs);
        }
        let (reply, answer) = oneshot::channel();
        engine.run_on_cpu(Piece {
            staged: Arc::clone(&piece.staged),
            rows: piece.rows.start..piece.rows.start + 1,
            callers: vec![(Answer(reply), engine.clock.monotonic())],
            fallback: None,
        });
        let Ok(Ok(Ok(right))) = timeout(CHECK, answer).await else {
            // A CPU that does not answer says nothing about the device.
            return Ok(outputs);
        };
        let first = |outputs: &[Tensor], row: usize| -> Vec<Tensor> {
            outputs
                .iter()
                .map(|output| Tensor {
                    name: output.name.clone(),
                    shape: Vec::new(),
                    data: output.row(row).to_vec(),
                })
                .collect()
        };
        let rows = self.padded(piece).len();
        let outputs = in_rows(outputs, rows);
        proof::agree(
            &first(&outputs, 0),
            &first(&right.outputs, right.row),
            self.probe.tolerance(),
        )
        .map_err(|detail| Failure {
            fault: Fault::WrongAnswer,
            detail,
        })?;
        Ok(outputs.to_vec())
    }

    fn went_well(&mut self, engine: &Shared, piece: &Piece, ran: Duration) {
        let rows = piece.callers.len();
        self.health.ran(rows);
        engine.metrics.ran(self.place.provider.name(), rows, ran);
        tracing::debug!(device = %self.place, rows, ms = ran.as_secs_f64() * 1e3, "batch completed");
        let most = self.health.most_rows();
        if most < self.grouping.max_rows.get() {
            self.good_runs += 1;
            if self.good_runs >= RUNS_TO_GROW {
                self.good_runs = 0;
                self.health
                    .limit_rows((most * 2).min(self.grouping.max_rows.get()));
            }
        }
    }

    /// Lets the CPU run the rows, and takes the device down if that was once too often.
    fn went_wrong(&mut self, engine: &Arc<Shared>, piece: Piece, failure: Failure) {
        let fault = failure.fault;
        tracing::warn!(device = %self.place, fault = fault.name(), reason = %failure.detail, rows = piece.callers.len(), "falling back to the cpu");
        let is_down = self.health.failed(failure, engine.clock.monotonic());
        engine.fall_back(piece, fault);
        if is_down {
            tracing::error!(device = %self.place, "the device is down; its rows go to the cpu until a probe succeeds");
            self.worker = None;
            engine.send_to(Route::Cpu);
        } else if fault != Fault::OutOfMemory {
            // A session that failed may be spoilt.
            self.start_anew();
        }
    }

    /// Probes a device that is down on a new session.
    async fn try_again(&mut self, engine: &Arc<Shared>) {
        self.start_anew();
        let probe = Arc::clone(&self.probe);
        let outcome = self
            .order(true, move |session| run_checked(session, probe.batch()))
            .await;
        let checked = outcome.and_then(|outputs| {
            self.probe.check(&outputs).map_err(|detail| Failure {
                fault: Fault::WrongAnswer,
                detail,
            })
        });
        match checked {
            Ok(_) => {
                tracing::info!(device = %self.place, "the device answers right again; rows go to it");
                self.health.recovered();
                engine.send_to(Route::Device);
            }
            Err(failure) => {
                tracing::warn!(device = %self.place, reason = %failure.detail, "the device is still down");
                self.worker = None;
                self.health.stays_down(failure, engine.clock.monotonic());
            }
        }
    }
}

/// A run whose answers are numbers.
fn run_checked(session: &mut dyn Session, batch: Batch<'_>) -> Result<Vec<Tensor>, Failure> {
    let outputs = session.run(batch)?;
    if proof::are_numbers(&outputs) {
        Ok(outputs)
    } else {
        Err(Failure {
            fault: Fault::WrongAnswer,
            detail: "its answers are no numbers".to_owned(),
        })
    }
}

impl Shared {
    fn send_to(self: &Arc<Self>, route: Route) {
        self.batcher().send_to(route);
        // What was claimed for the device goes to the CPU now, on all of its sessions.
        for _ in 0..self.pool.threads() {
            self.queue_turn();
        }
    }
}

/// The first `rows` rows of a piece, and the others.
fn split(piece: Piece, rows: usize) -> (Piece, Piece) {
    let mut callers = piece.callers;
    let rest = callers.split_off(rows);
    let middle = piece.rows.start + rows;
    let first = Piece {
        staged: Arc::clone(&piece.staged),
        rows: piece.rows.start..middle,
        callers,
        fallback: piece.fallback,
    };
    let rest = Piece {
        staged: piece.staged,
        rows: middle..piece.rows.end,
        callers: rest,
        fallback: piece.fallback,
    };
    (first, rest)
}

#[cfg(test)]
mod tests;
