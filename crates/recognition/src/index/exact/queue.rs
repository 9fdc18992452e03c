//! The searches of a collection that wait for a pass over its rows.

use facescan_index::{Proposal, Query};
use facescan_inference::pool::PoolError;
use tokio::sync::oneshot;

/// The most searches that share a pass.
const MAX_TOGETHER: usize = 64;

/// The searches of a collection that wait for the next pass.
#[derive(Default)]
pub(super) struct ScanQueue {
    waiting: Vec<WaitingSearch>,
    /// Whether a task runs passes until none waits.
    is_running: bool,
}

/// A search, and where its result goes.
pub(super) struct WaitingSearch {
    pub query: Query,
    pub rows: usize,
    pub reply: oneshot::Sender<Result<Vec<Proposal>, PoolError>>,
}

impl ScanQueue {
    /// Adds a search. Returns whether the caller has to start a task that runs passes.
    pub(super) fn add(&mut self, search: WaitingSearch) -> bool {
        self.waiting.push(search);
        !std::mem::replace(&mut self.is_running, true)
    }

    /// Takes the searches of the next pass. Returns `None` if no search waits. The task then ends.
    pub(super) fn take(&mut self) -> Option<Vec<WaitingSearch>> {
        self.waiting.retain(|search| !search.reply.is_closed());
        if self.waiting.is_empty() {
            self.is_running = false;
            return None;
        }
        let count = self.waiting.len().min(MAX_TOGETHER);
        Some(self.waiting.drain(..count).collect())
    }
}
