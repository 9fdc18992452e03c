//! The batches that this process works on. Their work stops when they are cancelled or deleted.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use facescan_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The batches that this process works on. Cheap to clone.
#[derive(Clone, Default)]
pub struct RunningBatches {
    batches: Arc<Mutex<HashMap<Uuid, Running>>>,
}

#[derive(Default)]
struct Running {
    stop: CancellationToken,
    chunks: usize,
}

/// A chunk that is in work. Dropping it ends the work.
pub struct RunningChunk {
    running: RunningBatches,
    batch: Uuid,
    stop: CancellationToken,
}

impl RunningBatches {
    /// Records that the work on a chunk of a batch begins.
    pub fn begin(&self, batch: Uuid) -> RunningChunk {
        let mut batches = self.batches();
        let running = batches.entry(batch).or_default();
        running.chunks += 1;
        RunningChunk {
            running: self.clone(),
            batch,
            stop: running.stop.clone(),
        }
    }

    /// Stops the work of this process on a batch.
    pub fn stop(&self, batch: Uuid) {
        if let Some(running) = self.batches().get(&batch) {
            running.stop.cancel();
        }
    }

    /// Stops the work on batches that another process has cancelled or deleted. One query finds all of them.
    pub(crate) async fn stop_ended(&self, store: &Store) -> Result<(), StoreError> {
        let known: Vec<Uuid> = self.batches().keys().copied().collect();
        if known.is_empty() {
            return Ok(());
        }
        let active: HashSet<Uuid> = store.active_batches(&known).await?.into_iter().collect();
        for batch in known.into_iter().filter(|batch| !active.contains(batch)) {
            self.stop(batch);
        }
        Ok(())
    }

    fn batches(&self) -> MutexGuard<'_, HashMap<Uuid, Running>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningChunk {
    /// Returns when the batch was cancelled or deleted.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Returns whether the batch was cancelled or deleted.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}

impl Drop for RunningChunk {
    fn drop(&mut self) {
        let mut batches = self.running.batches();
        if let Some(running) = batches.get_mut(&self.batch) {
            running.chunks -= 1;
            if running.chunks == 0 {
                batches.remove(&self.batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_stopped_with_all_its_chunks_and_then_unknown() {
        let running = RunningBatches::default();
        let (batch, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let chunks = [running.begin(batch), running.begin(batch)];
        let beside = running.begin(other);
        running.stop(batch);
        assert!(chunks.iter().all(RunningChunk::is_stopped) && !beside.is_stopped());
        drop((chunks, beside));
        assert!(running.batches().is_empty());
        running.stop(batch);
        assert!(!running.begin(batch).is_stopped());
    }
}
