//! The queue that wakes workers.
//!
//! The database is the truth: it has the chunks, their order between tenants, and the leases. A queue only says that there is
//! work. So a queue that loses messages, repeats them or is unreachable costs time and nothing else.
//!
//! [`DatabaseQueue`](database::DatabaseQueue) wakes all workers through the database. [`NatsQueue`](nats::NatsQueue) wakes one
//! worker for each chunk, so that many workers do not have to ask the database.

pub mod database;
pub mod nats;

use std::time::Duration;

use async_trait::async_trait;

/// Wakes workers when chunks are ready.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Says that this process has made chunks ready.
    fn submitted(&self);

    /// Waits until there may be a chunk, at most `patience`.
    async fn wait(&self, patience: Duration);

    /// Passes messages between processes. Never returns. Without it, the queue wakes only the workers of this process.
    async fn run(&self);
}
