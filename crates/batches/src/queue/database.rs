//! The queue on the database.

use std::{future, time::Duration};

use async_trait::async_trait;
use facescan_store::ChunkNotifications;
use tokio::sync::Notify;

use super::WorkQueue;

/// Wakes the workers of this process, and with Postgres those of other processes. Workers also look at the database from time
/// to time.
pub struct DatabaseQueue {
    notifications: Option<ChunkNotifications>,
    /// The shortest time between two notifications, and the wait after an error.
    interval: Duration,
    /// Wakes the workers of this process.
    ready: Notify,
    /// This process has made chunks ready and has not notified the others.
    submitted: Notify,
}

impl DatabaseQueue {
    /// Creates a queue that notifies other processes at most once in `interval`.
    pub fn new(notifications: Option<ChunkNotifications>, interval: Duration) -> Self {
        Self {
            notifications,
            interval,
            ready: Notify::new(),
            submitted: Notify::new(),
        }
    }

    fn wake(&self) {
        // Wakes one worker, also one that begins to wait later.
        self.ready.notify_one();
        self.ready.notify_waiters();
    }

    async fn notify(&self, notifications: &ChunkNotifications) {
        loop {
            self.submitted.notified().await;
            if let Err(error) = notifications.notify().await {
                tracing::warn!(%error, "the workers of other processes are not notified; they find the chunks later");
            }
            // The commit of a notification takes a lock that all notifications of the server share, so a long submission sends few.
            tokio::time::sleep(self.interval).await;
        }
    }

    async fn listen(&self, notifications: &ChunkNotifications) {
        loop {
            match notifications.wait().await {
                Ok(()) => self.wake(),
                Err(error) => {
                    tracing::warn!(%error, "notifications of chunks cannot be received; workers find the chunks later");
                    tokio::time::sleep(self.interval).await;
                }
            }
        }
    }
}

#[async_trait]
impl WorkQueue for DatabaseQueue {
    fn submitted(&self) {
        self.wake();
        self.submitted.notify_one();
    }

    async fn wait(&self, patience: Duration) {
        tokio::time::timeout(patience, self.ready.notified())
            .await
            .ok();
    }

    async fn run(&self) {
        match &self.notifications {
            None => future::pending().await,
            Some(notifications) => {
                tokio::join!(self.notify(notifications), self.listen(notifications));
            }
        }
    }
}
