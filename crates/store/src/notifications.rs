//! Notifications between the processes that use one Postgres server.

use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::Mutex;

use crate::error::StoreError;
use crate::observer::timed_out;
use crate::parameters::params;
use crate::pools::Pools;
use crate::store::Store;

const CHANNEL: &str = "facescan_chunks";

crate::prepared::statements! {
    const NOTIFY = "SELECT pg_notify(:channel, '')", only postgres;
}

/// Tells the workers of other processes that chunks are ready, by `NOTIFY` and `LISTEN` on one channel.
///
/// A notification can be lost, for example while a connection is broken. It means that there may be work, and nothing else.
///
/// # Errors
///
/// [`StoreError::Unavailable`] if the database is unavailable.
pub struct ChunkNotifications {
    store: Store,
    pool: PgPool,
    /// A connection that listens. `None` before the first wait, and after an error.
    listener: Mutex<Option<PgListener>>,
}

impl Store {
    /// Returns what wakes the workers of other processes. `None` if one process has the database for itself.
    pub fn notifications(&self) -> Option<ChunkNotifications> {
        let Pools::Postgres { pool, .. } = self.pools() else {
            return None;
        };
        Some(ChunkNotifications {
            store: self.clone(),
            pool: pool.clone(),
            listener: Mutex::default(),
        })
    }
}

impl ChunkNotifications {
    /// Wakes every process that waits, this one included.
    pub async fn notify(&self) -> Result<(), StoreError> {
        let notify = async {
            let mut acquired = self.store.writer().await?;
            let notified = acquired
                .connection()
                .execute(NOTIFY, params!(channel = CHANNEL))
                .await;
            acquired.finish();
            notified?;
            Ok(())
        };
        let limit = self.store.call_timeout();
        tokio::time::timeout(limit, notify)
            .await
            .unwrap_or_else(|_| Err(timed_out(limit)))
    }

    /// Waits until a process notifies. One task at a time can wait.
    pub async fn wait(&self) -> Result<(), StoreError> {
        let mut known = self.listener.lock().await;
        let mut listener = match known.take() {
            Some(listener) => listener,
            None => self.listen().await?,
        };
        let notification = listener.recv().await?;
        drop(notification);
        *known = Some(listener);
        Ok(())
    }

    /// Listens on a connection of its own, which stays open.
    async fn listen(&self) -> Result<PgListener, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.store.call_timeout())
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_with(self.pool.connect_options().as_ref().clone())
            .await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }
}
