//! Rows from their claim to their reply. Callers claim and commit them one by one, and they run in sub-batches.
//!
//! For traces, a row has a span, and so has a run. Nothing enters these spans, so the log has the span of the request. A run is
//! a child of its first row, which waited longest. It is linked to the others.

use std::{
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::oneshot;
use tracing::{Span, field::Empty, info_span};

use super::{EngineError, ReplySender, RowOutput, RunTiming, Shared};
use crate::{
    backend::BackendError,
    batch_buffer::RowMemory,
    batcher::{ReadyBatch, Reply as _, RowSlot, StagedRows},
    device::DeviceRun,
    health::Fault,
    placement::DevicePlacement,
    tensor::Tensor,
};

/// A claimed row. Dropping it cancels the row.
pub struct Row {
    shared: Arc<Shared>,
    /// `None` once committed.
    claimed: Option<(RowSlot, RowMemory)>,
}

impl Row {
    pub(super) fn claim(shared: &Arc<Shared>, row_shape: &[usize]) -> Self {
        let now = shared.clock.monotonic();
        let claimed = shared.batcher().claim(row_shape, now);
        if claimed.opens_buffer {
            shared.start_delay_timer(claimed.slot.route);
        }
        Self {
            shared: Arc::clone(shared),
            claimed: Some((claimed.slot, claimed.memory)),
        }
    }

    /// Returns the row's values. Write all of them: an earlier row may have left its own there.
    pub fn values(&mut self) -> &mut [f32] {
        match &mut self.claimed {
            Some((_, memory)) => memory.values(),
            None => &mut [],
        }
    }

    /// Lets the row run. The future resolves to its outputs. Dropping the future before the run cancels the row.
    pub fn commit(self) -> Pending {
        self.commit_with(RunTiming::Queued)
    }

    /// Lets the row run like [`commit`](Self::commit), as the last action of a job of the pool. The same thread runs
    /// the row next, unless a device does.
    pub fn commit_last(self) -> Pending {
        self.commit_with(RunTiming::Next)
    }

    fn commit_with(mut self, timing: RunTiming) -> Pending {
        let (reply, result) = oneshot::channel();
        if let Some((slot, memory)) = self.claimed.take() {
            let shared = &self.shared;
            let now = shared.clock.monotonic();
            let reply = ReplySender {
                sender: reply,
                span: row_span(shared.metrics.operation()),
            };
            let route = {
                let mut batcher = shared.batcher();
                batcher.commit(&slot, memory, reply, now);
                batcher.effective_route(slot.route)
            };
            shared.dispatch(route, timing);
        }
        Pending(result)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if let Some((slot, memory)) = self.claimed.take() {
            let route = {
                let mut batcher = self.shared.batcher();
                batcher.give_up(&slot, memory);
                batcher.effective_route(slot.route)
            };
            // The rest of the batch may have waited for this row only.
            self.shared.dispatch(route, RunTiming::Queued);
        }
    }
}

/// Resolves to the outputs of a committed row.
pub struct Pending(oneshot::Receiver<Result<RowOutput, EngineError>>);

impl Future for Pending {
    type Output = Result<RowOutput, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|result| result.unwrap_or(Err(EngineError::Stopped)))
    }
}

/// Rows of a batch that run together, and their callers.
pub(super) struct SubBatch {
    pub staged: Arc<StagedRows>,
    pub rows: Range<usize>,
    /// The caller of each row, and when the row was committed.
    pub callers: Vec<(ReplySender, Duration)>,
    pub fallback: Option<Fault>,
}

impl From<ReadyBatch<ReplySender>> for SubBatch {
    fn from(batch: ReadyBatch<ReplySender>) -> Self {
        Self {
            rows: 0..batch.callers.len(),
            staged: Arc::new(batch.staged),
            callers: batch.callers,
            fallback: None,
        }
    }
}

impl SubBatch {
    /// Splits off the first `rows` rows.
    pub fn split(self, rows: usize) -> (Self, Self) {
        let mut callers = self.callers;
        let rest = callers.split_off(rows);
        let middle = self.rows.start + rows;
        let first = Self {
            staged: Arc::clone(&self.staged),
            rows: self.rows.start..middle,
            callers,
            fallback: self.fallback,
        };
        let rest = Self {
            staged: self.staged,
            rows: middle..self.rows.end,
            callers: rest,
            fallback: self.fallback,
        };
        (first, rest)
    }

    /// Returns whether nobody waits for any of the rows.
    pub fn is_abandoned(&self) -> bool {
        self.callers.iter().all(|(reply, _)| reply.is_abandoned())
    }

    /// Returns how long the first row has waited at `now`.
    pub fn queued(&self, now: Duration) -> Duration {
        self.callers
            .first()
            .map_or(Duration::ZERO, |(_, committed_at)| {
                now.saturating_sub(*committed_at)
            })
    }
}

/// The outputs of a run, with one entry of the first dimension for each row.
pub(super) type RunOutcome = Result<Arc<[Tensor]>, Arc<BackendError>>;

/// Where a run took place, when it started and how long it took.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub ran_on: DevicePlacement,
    pub started_at: Duration,
    pub ran: Duration,
}

/// Gives each output `rows` as its first dimension.
pub(super) fn in_rows(outputs: Vec<Tensor>, rows: usize) -> Arc<[Tensor]> {
    outputs
        .into_iter()
        .map(|output| output.into_rows(rows))
        .collect()
}

impl Shared {
    /// Replies to the caller of each row.
    pub(super) fn reply(&self, sub_batch: SubBatch, outcome: RunOutcome, run: Run) {
        let rows = sub_batch.callers.len();
        for (index, (reply, committed_at)) in sub_batch.callers.into_iter().enumerate() {
            record_run(&reply.span, run.ran_on, rows, outcome.is_ok());
            let result = match &outcome {
                Ok(outputs) => Ok(RowOutput {
                    outputs: Arc::clone(outputs),
                    row: index,
                    queued: run.started_at.saturating_sub(committed_at),
                    run: DeviceRun {
                        placement: run.ran_on,
                        fallback: sub_batch.fallback,
                    },
                }),
                Err(error) => Err(EngineError::Backend(Arc::clone(error))),
            };
            // A caller that left during the run needs no reply.
            drop(reply.sender.send(result));
        }
        if let Some(staged) = Arc::into_inner(sub_batch.staged) {
            self.batcher().recycle(staged);
        }
    }
}

/// Returns the span of a row that waits to run. It belongs to the current request.
fn row_span(operation: &'static str) -> Span {
    info_span!(
        target: "otlp",
        "inference",
        operation,
        device = Empty,
        rows = Empty,
        otel.status_code = Empty,
    )
}

/// Returns the span of one run of a sub-batch.
pub(super) fn run_span(operation: &'static str, sub_batch: &SubBatch) -> Span {
    let mut rows = sub_batch.callers.iter().map(|(reply, _)| &reply.span);
    let first = rows.next().cloned().unwrap_or_else(Span::none);
    let run = info_span!(
        target: "otlp",
        parent: &first,
        "model run",
        operation,
        device = Empty,
        rows = Empty,
        otel.status_code = Empty,
    );
    for row in rows {
        run.follows_from(row);
    }
    run
}

/// Records where rows ran, how many ran together, and whether the run succeeded.
pub(super) fn record_run(span: &Span, ran_on: DevicePlacement, rows: usize, is_ok: bool) {
    if span.is_disabled() {
        return;
    }
    span.record("device", ran_on.provider.name());
    span.record("rows", rows);
    if !is_ok {
        span.record("otel.status_code", "error");
    }
}
