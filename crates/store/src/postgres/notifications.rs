//! Notifications between the processes that use one Postgres server.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::sync::Mutex;

use crate::{
    StoreError, call::CallConnection, notifications::ChunkNotifications, observer::timed_out,
};

const CHANNEL: &str = "facescan_chunks";

/// `NOTIFY` and `LISTEN` on one channel.
pub(crate) struct PostgresNotifications {
    pool: PgPool,
    options: PgConnectOptions,
    call_timeout: Duration,
    /// A connection that listens. `None` before the first wait, and after an error.
    listener: Mutex<Option<PgListener>>,
}

impl PostgresNotifications {
    /// Notifies through `pool`. Listens on a connection of its own with `options`.
    pub(super) fn new(pool: PgPool, options: PgConnectOptions, call_timeout: Duration) -> Self {
        Self {
            pool,
            options,
            call_timeout,
            listener: Mutex::default(),
        }
    }

    async fn listen(&self) -> Result<PgListener, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.call_timeout)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_with(self.options.clone())
            .await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }
}

#[async_trait]
impl ChunkNotifications for PostgresNotifications {
    async fn notify(&self) -> Result<(), StoreError> {
        let notify = async {
            let mut connection = CallConnection::acquire(&self.pool).await?;
            let notified = sqlx::query("SELECT pg_notify($1, '')")
                .bind(CHANNEL)
                .execute(&mut *connection)
                .await;
            connection.finish();
            notified?;
            Ok(())
        };
        let limit = self.call_timeout;
        tokio::time::timeout(limit, notify)
            .await
            .unwrap_or_else(|_| Err(timed_out(limit)))
    }

    async fn wait(&self) -> Result<(), StoreError> {
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
}
