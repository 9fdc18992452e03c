//! The queue that wakes workers.
//!
//! The database is the truth: it has the chunks, their order between tenants, and the leases. A queue only says that there is
//! work. So a queue that loses messages, repeats them or is away costs time and nothing else.
//!
//! [`LocalQueue`] wakes the workers of one process. [`nats::NatsQueue`] wakes one worker of any process for each chunk, so
//! that many workers do not have to ask the database.

pub mod nats;

use std::time::Duration;

use async_trait::async_trait;
use facescan_store::ReadyChunk;
use tokio::sync::Notify;

/// Wakes workers when chunks are ready.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Says that this process has made chunks ready.
    fn submitted(&self);

    /// Waits until this process has made chunks ready.
    async fn until_submitted(&self);

    /// Waits until there may be a chunk, at most `patience`. `had_chunk` is whether the last claim found one.
    async fn wait(&self, had_chunk: bool, patience: Duration);

    /// Returns whether the queue must be told of each chunk.
    fn takes_announcements(&self) -> bool;

    /// Tells the queue of chunks. Chunks that it has already are not added.
    ///
    /// # Errors
    /// Returns the reason if the queue cannot be told now.
    async fn announce(&self, chunks: &[ReadyChunk]) -> Result<(), QueueError>;
}

/// The queue cannot be used now.
#[derive(Debug, thiserror::Error)]
#[error("the queue cannot be used: {0}")]
pub struct QueueError(pub String);

/// Wakes the workers of this process. Other processes look at the database from time to time.
#[derive(Debug, Default)]
pub struct LocalQueue {
    submitted: Notify,
}

#[async_trait]
impl WorkQueue for LocalQueue {
    fn submitted(&self) {
        // Wakes one worker, also one that begins to wait later. Each worker that finds a chunk looks for the next one.
        self.submitted.notify_one();
        self.submitted.notify_waiters();
    }

    async fn until_submitted(&self) {
        self.submitted.notified().await;
    }

    async fn wait(&self, had_chunk: bool, patience: Duration) {
        if !had_chunk {
            tokio::time::timeout(patience, self.submitted.notified())
                .await
                .ok();
        }
    }

    fn takes_announcements(&self) -> bool {
        false
    }

    async fn announce(&self, _chunks: &[ReadyChunk]) -> Result<(), QueueError> {
        Ok(())
    }
}
