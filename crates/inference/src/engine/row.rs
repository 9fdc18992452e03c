//! A row from its claim to its reply.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use super::{EngineError, ReplySender, RowOutput, RunTiming, Shared, trace};
use crate::{batch_buffer::RowMemory, batcher::RowSlot};

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
                span: trace::row_span(shared.metrics.operation()),
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
