//! Runs batches on the CPU, as jobs of the pool.
//!
//! Decoding and inference share the pool's threads, so they never compete for cores. One session per thread has the
//! highest throughput. One session over all cores has the lowest latency for a single row. It is used if there is no
//! other work. A session moves to the thread that runs it and back, so it is never shared or locked.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, MutexGuard, PoisonError},
};

use super::{
    Shared,
    rows::{Run, RunOutcome, SubBatch, in_rows, record_run, run_span},
    watch::Watch,
};
use crate::{
    backend::{BackendError, Batch, Session},
    batcher::Route,
    health::Fault,
    metrics::BatchRun,
    placement::{DevicePlacement, Provider},
    pool::Stage,
    tensor::Tensor,
};

/// The sessions of one model on the CPU, which run at the same time.
pub struct Sessions {
    /// One for each thread of the pool, or fewer with several threads each.
    pub per_worker: Vec<Box<dyn Session>>,
    /// One session over all cores, for a single row on an idle server.
    pub all_cores: Option<Box<dyn Session>>,
    /// Replaces a session that fails, if the sessions use another provider than the runtime's own CPU kernels.
    pub replacement: Option<SessionOpener>,
    /// Where all of them were opened. A replacement runs at [`DevicePlacement::CPU`].
    pub placement: DevicePlacement,
}

impl Sessions {
    /// Takes sessions of the runtime's own CPU kernels, without one over all cores.
    pub fn own(per_worker: Vec<Box<dyn Session>>) -> Self {
        Self {
            per_worker,
            all_cores: None,
            replacement: None,
            placement: DevicePlacement::CPU,
        }
    }
}

/// Opens a session.
pub type SessionOpener = Arc<dyn Fn() -> Result<Box<dyn Session>, BackendError> + Send + Sync>;

/// A session, and where it runs.
struct CpuSession {
    session: Box<dyn Session>,
    placement: DevicePlacement,
    is_over_all_cores: bool,
}

/// The free sessions.
pub(super) struct CpuSessions {
    per_worker: Vec<CpuSession>,
    all_cores: Option<CpuSession>,
    replacement: Option<SessionOpener>,
}

impl CpuSessions {
    pub(super) fn new(sessions: Sessions) -> Self {
        let placement = sessions.placement;
        let placed = |is_over_all_cores| {
            move |session| CpuSession {
                session,
                placement,
                is_over_all_cores,
            }
        };
        let per_worker = sessions.per_worker.into_iter();
        Self {
            per_worker: per_worker.map(placed(false)).collect(),
            all_cores: sessions.all_cores.map(placed(true)),
            replacement: sessions.replacement,
        }
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, CpuSessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue_dispatch(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.pool
            .spawn(Stage::Infer, move || shared.run_next_batch());
    }

    pub(super) fn dispatch_next(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.pool
            .spawn_next(Stage::Infer, move || shared.run_next_batch());
    }

    /// Runs the oldest ready rows on a free session, on this thread.
    fn run_next_batch(self: &Arc<Self>) {
        let Some(mut session) = self.lease_session() else {
            // All sessions run. The first thread that finishes takes the next batch.
            return;
        };
        if let Some(sub_batch) = self.next_sub_batch() {
            let span = sub_batch.staged.span.clone();
            span.in_scope(|| self.run(&mut session, sub_batch));
        }
        self.put_back(session);
        if self.has_ready() {
            self.queue_dispatch();
        }
    }

    fn has_ready(&self) -> bool {
        let now = self.clock.monotonic();
        !self.sub_batches().is_empty() || self.batcher().has_ready(Route::Cpu, now)
    }

    pub(super) fn sub_batches(&self) -> MutexGuard<'_, VecDeque<SubBatch>> {
        self.sub_batches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next rows that at least one caller waits for.
    fn next_sub_batch(self: &Arc<Self>) -> Option<SubBatch> {
        loop {
            let waiting = self.sub_batches().pop_front();
            let sub_batch = match waiting {
                Some(sub_batch) => sub_batch,
                None => self.next_ready_batch()?,
            };
            if !sub_batch.is_abandoned() {
                return Some(sub_batch);
            }
            self.metrics.skipped(sub_batch.callers.len());
        }
    }

    /// Takes the oldest ready batch, divided into sub-batches if it was made for a device.
    fn next_ready_batch(self: &Arc<Self>) -> Option<SubBatch> {
        let now = self.clock.monotonic();
        let (next, route) = {
            let mut batcher = self.batcher();
            (batcher.next_batch(Route::Cpu, now), batcher.route)
        };
        self.metrics.skipped(next.skipped);
        let mut sub_batch = SubBatch::from(next.batch?);
        let is_fallback = self.device.is_some() && route == Route::Cpu;
        if is_fallback {
            sub_batch.fallback = Some(Fault::Down);
            self.count_fallback(Fault::Down, sub_batch.callers.len());
        }
        let max_rows = self.groupings.cpu.max_rows.get();
        if sub_batch.callers.len() <= max_rows {
            return Some(sub_batch);
        }
        self.divide(sub_batch, max_rows);
        self.sub_batches().pop_front()
    }

    /// Runs rows on the CPU that the device did not run, or ran with a wrong result.
    pub(super) fn fall_back(self: &Arc<Self>, sub_batch: SubBatch, fault: Fault) {
        self.count_fallback(fault, sub_batch.callers.len());
        let sub_batch = SubBatch {
            fallback: Some(fault),
            ..sub_batch
        };
        self.divide(sub_batch, self.groupings.cpu.max_rows.get());
    }

    /// Queues a sub-batch for the CPU as it is.
    pub(super) fn run_on_cpu(self: &Arc<Self>, sub_batch: SubBatch) {
        self.sub_batches().push_back(sub_batch);
        self.queue_dispatch();
    }

    fn count_fallback(&self, fault: Fault, rows: usize) {
        self.metrics.fell_back(fault.name(), rows);
        if let Some(device) = &self.device {
            device.supervisor.health().fell_back(fault, rows);
        }
    }

    /// Queues sub-batches of at most `max_rows` rows, so that all sessions can share the work.
    fn divide(self: &Arc<Self>, sub_batch: SubBatch, max_rows: usize) {
        let mut rest = sub_batch;
        while rest.callers.len() > max_rows {
            let (first, others) = rest.split(max_rows);
            self.run_on_cpu(first);
            rest = others;
        }
        if !rest.callers.is_empty() {
            self.run_on_cpu(rest);
        }
    }

    /// Returns the session over all cores if there is only one row to run, otherwise a session per worker.
    fn lease_session(&self) -> Option<CpuSession> {
        let is_single = self.pool.is_quiet()
            && self.sub_batches().len() + self.batcher().waiting_for(Route::Cpu) == 1;
        let mut sessions = self.sessions();
        if is_single && let Some(session) = sessions.all_cores.take() {
            return Some(session);
        }
        sessions.per_worker.pop()
    }

    fn put_back(&self, session: CpuSession) {
        let mut sessions = self.sessions();
        if session.is_over_all_cores {
            sessions.all_cores = Some(session);
        } else {
            sessions.per_worker.push(session);
        }
    }

    fn run(&self, leased: &mut CpuSession, mut sub_batch: SubBatch) {
        let span = run_span(self.metrics.operation(), &sub_batch);
        let started_at = self.clock.monotonic();
        let start = sub_batch.rows.start;
        let available = sub_batch.staged.end - start;
        let rows = self.groupings.cpu.padded(sub_batch.rows.len(), available);
        let batch = Batch {
            row_shape: &sub_batch.staged.shape,
            data: sub_batch.staged.values(start..start + rows),
            frees_memory: sub_batch.staged.is_oversized,
        };
        let watch = batch.frees_memory.then(|| leased.session.stop()).flatten();
        let watch = watch.map(|stop| {
            let callers = std::mem::take(&mut sub_batch.callers);
            Watch::start(&self.runtime, callers, stop)
        });
        let mut ran = run_caught(leased.session.as_mut(), batch);
        if let Some(watch) = watch {
            sub_batch.callers = watch.finish(&self.runtime);
        }
        let replacement = self.sessions().replacement.clone();
        if let (Err(error), Some(open), false) = (&ran, replacement, sub_batch.is_abandoned()) {
            tracing::warn!(%error, "a run failed on the cpu's provider; the runtime's own kernels replace it");
            if let Ok(session) = open() {
                leased.session = session;
                leased.placement = DevicePlacement::CPU;
                ran = run_caught(leased.session.as_mut(), batch);
            }
        }
        let outcome: RunOutcome = ran.map(|outputs| in_rows(outputs, rows)).map_err(Arc::new);
        let ran = self.clock.monotonic().saturating_sub(started_at);
        record_run(
            &span,
            leased.placement,
            sub_batch.callers.len(),
            outcome.is_ok(),
        );
        drop(span);
        if outcome.is_ok() {
            self.metrics.ran(BatchRun {
                device: Provider::Cpu.name(),
                rows: sub_batch.callers.len(),
                queued: sub_batch.queued(started_at),
                elapsed: ran,
            });
        }
        let run = Run {
            ran_on: leased.placement,
            started_at,
            ran,
        };
        self.reply(sub_batch, outcome, run);
    }
}

/// Turns a panic into an error of the rows that ran.
fn run_caught(session: &mut dyn Session, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
    catch_unwind(AssertUnwindSafe(|| session.run(batch)))
        .unwrap_or_else(|_| Err(BackendError::run("the runtime panicked")))
}
