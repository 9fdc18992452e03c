//! SQLite, in a file or in memory.

mod files;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Row as _, Sqlite, SqliteConnection};
use tokio::sync::Semaphore;

use crate::dialect::{Dialect, FilePurge};
use crate::error::StoreError;
use crate::migrations;
use crate::pools::Pools;
use crate::settings::StoreSettings;

/// How long a statement waits for a lock that another process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepares the files of the database and opens two pools: one connection for writing, several for reading.
///
/// SQLite allows one writer at a time. The writers of this process queue for one connection, in order. Otherwise they
/// would poll the lock of the file until one of them times out.
pub(crate) fn open(url: &str, settings: &StoreSettings) -> Result<Pools, StoreError> {
    let options = SqliteConnectOptions::from_str(url)?
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(BUSY_TIMEOUT)
        // SQLite overwrites deleted content with zeros instead of leaving it in free pages. The write-ahead log still
        // holds older pages until the next checkpoint.
        .pragma("secure_delete", "ON");
    let pool = SqlitePoolOptions::new()
        .acquire_timeout(settings.acquire_timeout)
        // A file has no network that can break.
        .test_before_acquire(false);
    let writer = pool.clone().max_connections(1);
    if is_in_memory(url) {
        // The database exists for as long as this one connection is open.
        let writer = writer
            .min_connections(1)
            .idle_timeout(None)
            .max_lifetime(None);
        return Ok(Pools::Sqlite {
            read: writer.connect_lazy_with(options),
            write: None,
            bulk: Arc::new(Semaphore::new(1)),
        });
    }
    files::prepare(options.get_filename(), url.contains("mode=rwc"))?;
    let readers = pool.max_connections(settings.max_connections.max(1));
    Ok(Pools::Sqlite {
        read: readers.connect_lazy_with(options.clone()),
        write: Some(writer.connect_lazy_with(options)),
        bulk: Arc::new(Semaphore::new(1)),
    })
}

fn is_in_memory(url: &str) -> bool {
    url.contains(":memory:") || url.contains("mode=memory")
}

impl Dialect for Sqlite {
    const BEGIN_READ: &'static str = "BEGIN DEFERRED";
    // A connection has no network that can break. The only connection to a database in memory must not be closed.
    const CLOSES_INTERRUPTED: bool = false;
    // A deferred transaction fails if it reads first, another connection writes, and it then writes.
    const BEGIN_WRITE: &'static str = "BEGIN IMMEDIATE";

    fn migrator() -> &'static Migrator {
        &migrations::SQLITE
    }

    async fn purge_files(
        connection: &mut SqliteConnection,
        _: FilePurge,
    ) -> Result<bool, sqlx::Error> {
        // Deleted rows are zeros already (`secure_delete`), but the write-ahead log has older pages.
        let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
            .fetch_one(connection)
            .await?;
        Ok(checkpoint.try_get::<i64, _>("busy")? == 0)
    }
}
