//! The part of a batch that runs at once.

use std::{ops::Range, sync::Arc, time::Duration};

use super::{EngineError, ReplySender, RowOutput, Shared, trace};
use crate::{
    backend::BackendError,
    batcher::{ReadyBatch, Reply as _, StagedRows},
    device::DeviceRun,
    health::Fault,
    placement::DevicePlacement,
    tensor::Tensor,
};

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
            trace::record(&reply.span, run.ran_on, rows, outcome.is_ok());
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
