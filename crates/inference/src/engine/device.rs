//! Runs an engine's batches on its device.
//!
//! If the device runs out of memory, the batch is halved; a single row that does not fit runs on the CPU. After any
//! other failure, the same rows run once on the CPU. The [`Supervisor`] decides whether the device can be used. While
//! it cannot, all rows go to the CPU.

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
use tracing::{Instrument, Span};

use super::{
    DeviceLink, ReplySender, SessionOpener, Shared,
    rows::{Run, SubBatch, in_rows, record_run, run_span},
};
use crate::{
    backend::{Batch, Session},
    batcher::{BatchSizes, Grouping, Route},
    device::supervisor::{Dispatch, ShapeKey, Supervisor, SupervisorParts},
    health::{Failure, Fault, Health},
    metrics::BatchRun,
    placement::DevicePlacement,
    proof::{self, SelfTest},
    tensor::Tensor,
};
use facescan_clock::Clock;

/// The number of successful runs after which a lowered batch size is doubled.
const RUNS_TO_GROW: u32 = 64;

/// The time limit for repeating a row on the CPU for a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// A device for an engine.
pub struct DeviceParts {
    /// Provider, device number and precision.
    pub placement: DevicePlacement,
    /// Opens another session on the device.
    pub open: SessionOpener,
    /// The first session, which has passed the self-test.
    pub session: Box<dyn Session>,
    /// How rows are grouped for the device.
    pub grouping: Grouping,
    /// The device's state, for reports.
    pub health: Arc<Health>,
    /// Rows with known outputs.
    pub self_test: Arc<SelfTest>,
    /// The time limit of a run.
    pub run_timeout: Duration,
    /// One row of every `check_every`th batch is repeated on the CPU and compared.
    pub check_every: Option<NonZeroU64>,
    /// Whether a non-finite output counts as a fault of the device. Set it to false if there is no CPU session to
    /// compute the row again; the row's caller then gets the output as it is.
    pub must_be_finite: bool,
}

/// Takes batches for the device and runs them one after the other.
pub(super) struct DeviceDriver {
    supervisor: Arc<Supervisor<Box<dyn Session>>>,
    wake: Arc<Notify>,
    grouping: Grouping,
    self_test: Arc<SelfTest>,
    must_be_finite: bool,
    good_runs: u32,
}

/// Starts the device's supervisor. Must be called within the async runtime.
pub(super) fn start(parts: DeviceParts, clock: &Arc<dyn Clock>) -> (DeviceLink, DeviceDriver) {
    let wake = Arc::new(Notify::new());
    let self_test = Arc::clone(&parts.self_test);
    let probe = move |session: &mut Box<dyn Session>| {
        let outputs = run_checked(session.as_mut(), self_test.batch())?;
        self_test.check(&outputs).map_err(wrong_answer)
    };
    let supervised = SupervisorParts {
        placement: parts.placement,
        open: parts.open,
        health: parts.health,
        probe: Arc::new(probe),
        run_timeout: parts.run_timeout,
        check_every: parts.check_every,
        clock: Arc::clone(clock),
        changed: Arc::clone(&wake),
    };
    let session = parts.session;
    let supervisor = Supervisor::start(supervised, move || Ok(session));
    let link = DeviceLink {
        wake: Arc::clone(&wake),
        supervisor: Arc::clone(&supervisor),
    };
    let driver = DeviceDriver {
        supervisor,
        wake,
        grouping: parts.grouping,
        self_test: parts.self_test,
        must_be_finite: parts.must_be_finite,
        good_runs: 0,
    };
    (link, driver)
}

impl DeviceDriver {
    /// Runs the engine's batches on the device until the engine is dropped.
    pub(super) async fn drive(mut self, shared: Weak<Shared>) {
        loop {
            let Some(engine) = shared.upgrade() else {
                return;
            };
            let is_up = self.supervisor.health().is_up();
            engine.send_to(if is_up { Route::Device } else { Route::Cpu });
            let batch = if is_up { engine.device_batch() } else { None };
            if let Some(batch) = batch {
                let span = batch.staged.span.clone();
                self.run(&engine, batch).instrument(span).await;
            } else {
                // The engine can be dropped while this task waits.
                drop(engine);
                self.wake.notified().await;
            }
        }
    }

    /// Runs a batch in sub-batches that fit the device's memory. The CPU runs what the device cannot.
    async fn run(&mut self, engine: &Arc<Shared>, batch: SubBatch) {
        let mut waiting = vec![batch];
        while let Some(sub_batch) = waiting.pop() {
            let Some(dispatch) = self.supervisor.acquire().await else {
                engine.fall_back(sub_batch, Fault::Down);
                continue;
            };
            let max_rows = self.supervisor.health().most_rows();
            if sub_batch.callers.len() > max_rows && self.can_divide() {
                let (first, rest) = sub_batch.split(max_rows);
                waiting.extend([rest, first]);
                continue;
            }
            if let Some((first, rest)) = self.run_one(engine, sub_batch, dispatch).await {
                waiting.extend([rest, first]);
            }
        }
    }

    /// Runs a sub-batch. Returns its halves if the device ran out of memory.
    async fn run_one(
        &mut self,
        engine: &Arc<Shared>,
        sub_batch: SubBatch,
        dispatch: Dispatch<Box<dyn Session>>,
    ) -> Option<(SubBatch, SubBatch)> {
        let slot = dispatch.slot();
        let span = run_span(engine.metrics.operation(), &sub_batch);
        let (started_at, rows) = (engine.clock.monotonic(), self.padded(&sub_batch));
        let outcome = self.run_rows(&sub_batch, rows.clone(), dispatch).await;
        let ran = engine.clock.monotonic().saturating_sub(started_at);
        let checked = match outcome {
            Ok(outputs) => self.check(engine, &sub_batch, outputs).await,
            Err(failure) => Err(failure),
        };
        let callers = sub_batch.callers.len();
        record_run(&span, self.supervisor.placement(), callers, checked.is_ok());
        drop(span);
        match checked {
            Ok(outputs) => {
                let run = Run {
                    ran_on: self.supervisor.placement(),
                    started_at,
                    ran,
                };
                self.record_success(engine, &sub_batch, run);
                let outcome = Ok(in_rows(outputs, rows.len()));
                engine.reply(sub_batch, outcome, run);
                None
            }
            Err(failure)
                if failure.fault == Fault::OutOfMemory && callers > 1 && self.can_divide() =>
            {
                let half = callers.div_ceil(2);
                tracing::warn!(device = %self.supervisor.placement(), rows = callers, reason = %failure.detail, "out of memory; the batch is halved");
                self.good_runs = 0;
                self.supervisor.health().limit_rows(half);
                Some(sub_batch.split(half))
            }
            Err(failure) => {
                let fault = failure.fault;
                self.supervisor.failed(&slot, failure, callers);
                engine.fall_back(sub_batch, fault);
                None
            }
        }
    }

    /// Returns whether batches can be divided. Graphs with a fixed batch size accept no other size.
    fn can_divide(&self) -> bool {
        self.grouping.sizes != BatchSizes::Fixed
    }

    /// Returns the rows that run for a sub-batch. They include padding if the device needs few shapes.
    fn padded(&self, sub_batch: &SubBatch) -> Range<usize> {
        let start = sub_batch.rows.start;
        let available = sub_batch.staged.end - start;
        start..start + self.grouping.padded(sub_batch.rows.len(), available)
    }

    async fn run_rows(
        &self,
        sub_batch: &SubBatch,
        rows: Range<usize>,
        dispatch: Dispatch<Box<dyn Session>>,
    ) -> Result<Vec<Tensor>, Failure> {
        let lengths = std::iter::once(rows.len()).chain(sub_batch.staged.shape.iter().copied());
        let shape = ShapeKey {
            graph: "",
            lengths: lengths.map(|length| length as u32).collect(),
        };
        // The device's thread keeps the buffer alive while it reads it, even after a timeout.
        let staged = Arc::clone(&sub_batch.staged);
        let must_be_finite = self.must_be_finite;
        let job = move |session: &mut Box<dyn Session>| {
            let batch = Batch {
                row_shape: &staged.shape,
                data: staged.values(rows),
                frees_memory: staged.is_oversized,
            };
            if must_be_finite {
                run_checked(session.as_mut(), batch)
            } else {
                Ok(session.run(batch)?)
            }
        };
        self.supervisor.run(dispatch, shape, job).await
    }

    /// Repeats the first row on the CPU, if a check is due, and compares the outputs.
    async fn check(
        &self,
        engine: &Arc<Shared>,
        sub_batch: &SubBatch,
        outputs: Vec<Tensor>,
    ) -> Result<Vec<Tensor>, Failure> {
        if !self.supervisor.is_check_due() {
            return Ok(outputs);
        }
        let (sender, result) = oneshot::channel();
        let reply = ReplySender {
            sender,
            span: Span::none(),
        };
        engine.run_on_cpu(SubBatch {
            staged: Arc::clone(&sub_batch.staged),
            rows: sub_batch.rows.start..sub_batch.rows.start + 1,
            callers: vec![(reply, engine.clock.monotonic())],
            fallback: None,
        });
        let Ok(Ok(Ok(right))) = timeout(CHECK_TIMEOUT, result).await else {
            // A failure of the CPU is not a fault of the device.
            return Ok(outputs);
        };
        let rows = self.padded(sub_batch).len();
        let outputs = in_rows(outputs, rows);
        proof::agree(
            &one_row(&outputs, 0),
            &one_row(&right.outputs, right.row),
            self.self_test.tolerance(),
        )
        .map_err(wrong_answer)?;
        Ok(outputs.to_vec())
    }

    fn record_success(&mut self, engine: &Shared, sub_batch: &SubBatch, run: Run) {
        let (rows, device) = (sub_batch.callers.len(), self.supervisor.placement());
        self.supervisor.succeeded(rows);
        engine.metrics.ran(BatchRun {
            device: device.provider.name(),
            rows,
            queued: sub_batch.queued(run.started_at),
            elapsed: run.ran,
        });
        tracing::debug!(%device, rows, ms = run.ran.as_secs_f64() * 1e3, "batch completed");
        let (health, max_rows) = (self.supervisor.health(), self.grouping.max_rows.get());
        let limit = health.most_rows();
        if limit < max_rows {
            self.good_runs += 1;
            if self.good_runs >= RUNS_TO_GROW {
                self.good_runs = 0;
                health.limit_rows((limit * 2).min(max_rows));
            }
        }
    }
}

/// Returns one row of each output, as a batch of one row.
fn one_row(outputs: &[Tensor], row: usize) -> Vec<Tensor> {
    outputs
        .iter()
        .map(|output| {
            let data = output.row(row).to_vec();
            Tensor {
                name: output.name.clone(),
                shape: vec![1, data.len()],
                data,
            }
        })
        .collect()
}

fn wrong_answer(detail: String) -> Failure {
    Failure {
        fault: Fault::WrongAnswer,
        detail,
    }
}

/// Runs a batch and refuses non-finite outputs.
fn run_checked(session: &mut dyn Session, batch: Batch<'_>) -> Result<Vec<Tensor>, Failure> {
    let outputs = session.run(batch)?;
    if proof::all_finite(&outputs) {
        Ok(outputs)
    } else {
        Err(wrong_answer("its outputs are not finite".to_owned()))
    }
}

impl Shared {
    fn device_batch(&self) -> Option<SubBatch> {
        let now = self.clock.monotonic();
        let next = self.batcher().next_batch(Route::Device, now);
        self.metrics.skipped(next.skipped);
        next.batch.map(SubBatch::from)
    }

    /// Sends newly claimed rows to another route. If that is the CPU, all of its sessions look for rows that were
    /// claimed for the device.
    fn send_to(self: &Arc<Self>, route: Route) {
        {
            let mut batcher = self.batcher();
            if batcher.route == route {
                return;
            }
            batcher.route = route;
        }
        for _ in 0..self.pool.threads() {
            self.queue_dispatch();
        }
    }
}

#[cfg(test)]
mod tests;
