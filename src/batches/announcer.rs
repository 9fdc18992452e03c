//! Tells the queue of chunks that are ready, from the outbox in the database.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Batches, error::BatchError, queue::QueueError};

/// The number of chunks that are announced at a time.
const CHUNKS_PER_CALL: u32 = 1000;

/// A chunk that is still ready after this time is announced again, because the queue may have lost it.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// Why chunks were not announced.
#[derive(Debug, thiserror::Error)]
enum AnnounceError {
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl Batches {
    /// Announces chunks until `stop` is cancelled. Does nothing if the queue takes no announcements.
    pub async fn announce_until(&self, stop: CancellationToken) {
        if !self.queue.takes_announcements() {
            return;
        }
        while !stop.is_cancelled() {
            match self.announce_some().await {
                Ok(count) if count == CHUNKS_PER_CALL as usize => continue,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "chunks cannot be announced now; workers find them in the database");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.queue.until_submitted() => {}
                () = tokio::time::sleep(self.config.batches.poll()) => {}
            }
        }
    }

    /// Announces the oldest chunks. Returns their number.
    async fn announce_some(&self) -> Result<usize, AnnounceError> {
        let now = self.clock().now();
        let chunks = self
            .store
            .unannounced_chunks(now, now - REPEAT_AFTER, CHUNKS_PER_CALL)
            .await
            .map_err(BatchError::from)?;
        if !chunks.is_empty() {
            self.queue.announce(&chunks).await?;
            let marked = self.store.mark_announced(&chunks, now).await;
            marked.map_err(BatchError::from)?;
        }
        Ok(chunks.len())
    }
}
