//! The connections to the database.

use std::sync::Arc;

use futures::future::BoxFuture;
use sqlx::{PgPool, Pool, SqlitePool};
use tokio::sync::Semaphore;

use crate::call::{CallConnection, PooledConnection};
use crate::error::StoreError;
use crate::last_failure::LastFailure;

/// The number of connections to the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connections that are open, idle ones included.
    pub open: usize,
    /// Connections that no call uses.
    pub idle: usize,
}

/// The pools of connections to one of the two databases.
#[derive(Clone)]
pub(crate) enum Pools {
    /// Reads and writes use one pool.
    Postgres {
        pool: PgPool,
        last_failure: LastFailure,
    },
    /// SQLite allows one writer at a time, so writes have a pool of one connection. `None` if reads use the same one.
    Sqlite {
        read: SqlitePool,
        write: Option<SqlitePool>,
        /// One bulk call at a time waits for the connection, so that other calls wait for one of them at most.
        bulk: Arc<Semaphore>,
    },
}

impl Pools {
    /// Waits for a connection that reads.
    pub(crate) fn reader(&self) -> BoxFuture<'_, Result<CallConnection, StoreError>> {
        Box::pin(async move {
            Ok(CallConnection::new(match self {
                Self::Postgres { pool, .. } => PooledConnection::Postgres(pool.acquire().await?),
                Self::Sqlite { read, .. } => PooledConnection::Sqlite(read.acquire().await?),
            }))
        })
    }

    /// Waits for a connection that writes.
    pub(crate) fn writer(&self) -> BoxFuture<'_, Result<CallConnection, StoreError>> {
        Box::pin(async move {
            Ok(CallConnection::new(match self {
                Self::Postgres { pool, .. } => PooledConnection::Postgres(pool.acquire().await?),
                Self::Sqlite { read, write, .. } => {
                    let pool = write.as_ref().unwrap_or(read);
                    PooledConnection::Sqlite(pool.acquire().await?)
                }
            }))
        })
    }

    /// Waits for a connection that writes much.
    pub(crate) fn bulk_writer(&self) -> BoxFuture<'_, Result<CallConnection, StoreError>> {
        Box::pin(async move {
            let turn = match self {
                Self::Postgres { .. } => None,
                Self::Sqlite { bulk, .. } => Arc::clone(bulk).acquire_owned().await.ok(),
            };
            Ok(self.writer().await?.with_turn(turn))
        })
    }

    /// Records that a call found the database unavailable.
    pub(crate) fn note_failure(&self) {
        if let Self::Postgres { last_failure, .. } = self {
            last_failure.note();
        }
    }

    /// Returns the number of connections now.
    pub(crate) fn counts(&self) -> ConnectionCounts {
        match self {
            Self::Postgres { pool, .. } => ConnectionCounts::from_pools([Some(pool)]),
            Self::Sqlite { read, write, .. } => {
                ConnectionCounts::from_pools([Some(read), write.as_ref()])
            }
        }
    }

    /// Waits for the calls in progress and closes every connection.
    pub(crate) async fn close(&self) {
        match self {
            Self::Postgres { pool, .. } => pool.close().await,
            Self::Sqlite { read, write, .. } => {
                read.close().await;
                if let Some(write) = write {
                    write.close().await;
                }
            }
        }
    }
}

impl ConnectionCounts {
    fn from_pools<'a, DB: sqlx::Database>(
        pools: impl IntoIterator<Item = Option<&'a Pool<DB>>>,
    ) -> Self {
        let mut counts = Self::default();
        for pool in pools.into_iter().flatten() {
            counts.open += pool.size() as usize;
            counts.idle += pool.num_idle();
        }
        counts
    }
}
