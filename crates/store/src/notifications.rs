//! Notifications between the processes that use one database.

use async_trait::async_trait;

use crate::StoreError;

/// Tells the workers of other processes that chunks are ready.
///
/// A notification can be lost, for example while a connection is broken. It means that there may be work, and nothing else.
///
/// # Errors
///
/// [`StoreError::Unavailable`] if the database is unavailable.
#[async_trait]
pub trait ChunkNotifications: Send + Sync {
    /// Wakes every process that waits, this one included.
    async fn notify(&self) -> Result<(), StoreError>;

    /// Waits until a process notifies. One task at a time can wait.
    async fn wait(&self) -> Result<(), StoreError>;
}
