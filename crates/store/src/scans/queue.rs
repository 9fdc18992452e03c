//! The scans that wait to be saved.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::records::{NewScan, SavedScan};
use crate::error::StoreError;

/// The most scans of one transaction, and the most faces if it has several. SQLite takes longer for each value the more there are.
const MAX_SCANS: usize = 32;
pub(super) const MAX_FACES: usize = 64;

/// The scans that wait for the writer. A task saves them as long as there are any.
#[derive(Default)]
pub(crate) struct ScanQueue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<WaitingScan>,
    is_writing: bool,
}

pub(super) struct WaitingScan {
    pub(super) scan: Box<NewScan>,
    pub(super) reply: oneshot::Sender<Reply>,
}

pub(super) enum Reply {
    Ended(Result<SavedScan, StoreError>),
    /// The transaction of several scans failed because of one of them. Each call saves its own.
    Alone(Box<NewScan>),
}

impl ScanQueue {
    /// Adds a scan. Returns whether the caller must start a writer.
    pub(super) fn add(&self, scan: WaitingScan) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(scan);
        !mem::replace(&mut state.is_writing, true)
    }

    /// Begins to write. Only one task does at a time.
    pub(super) fn writing(&self) -> Writing<'_> {
        Writing {
            queue: self,
            has_ended: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer of a queue. If its task is dropped before the end, the calls that wait end.
pub(super) struct Writing<'q> {
    queue: &'q ScanQueue,
    has_ended: bool,
}

impl Writing<'_> {
    /// Returns scans that a call waits for, oldest first. Ends the writing if there are none.
    pub(super) fn next_group(&mut self) -> Option<Vec<WaitingScan>> {
        let mut state = self.queue.lock();
        let mut group = Vec::new();
        let mut faces = 0;
        while group.len() < MAX_SCANS
            && let Some(it) = state.waiting.pop_front()
        {
            if it.reply.is_closed() {
                continue;
            }
            faces += it.scan.faces.len();
            if faces > MAX_FACES && !group.is_empty() {
                state.waiting.push_front(it);
                break;
            }
            group.push(it);
        }
        self.has_ended = group.is_empty();
        state.is_writing = !self.has_ended;
        (!self.has_ended).then_some(group)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            *self.queue.lock() = QueueState::default();
        }
    }
}
