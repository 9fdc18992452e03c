//! The [`Store`] over either database.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Pool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::call::{CallConnection, change, query, snapshot};
use super::dialect::{Dialect, FilePurge};
use super::records::{
    CachedScan, ImageFilter, ImageSummary, Model, NewScan, PageRequest, SavedScan, ScanPage,
    Source, StoredFace, StoredImage,
};
use super::{ConnectionCounts, Observer, Store, StoreError, read, save, schema};

/// A store in a database of type `DB`.
pub(super) struct SqlStore<DB: Dialect> {
    pools: Pools<DB>,
    observer: Observer,
    call_timeout: Duration,
}

/// The connections of a store.
pub(super) struct Pools<DB: Dialect> {
    /// The pool for reads.
    pub(super) read: Pool<DB>,
    /// The pool for writes. `None` if writes use the pool for reads.
    pub(super) write: Option<Pool<DB>>,
}

impl<DB: Dialect> SqlStore<DB> {
    /// Creates a store. Its calls end after `call_timeout`.
    pub(super) fn new(pools: Pools<DB>, observer: Observer, call_timeout: Duration) -> Self {
        Self {
            pools,
            observer,
            call_timeout,
        }
    }

    pub(super) async fn reader(&self) -> Result<CallConnection<DB>, StoreError> {
        CallConnection::acquire(&self.pools.read).await
    }

    pub(super) async fn writer(&self) -> Result<CallConnection<DB>, StoreError> {
        CallConnection::acquire(self.write_pool()).await
    }

    /// Returns a connection that no longer belongs to the pool, for work that takes hours.
    pub(super) async fn detached(&self) -> Result<DB::Connection, StoreError> {
        Ok(self.write_pool().acquire().await?.detach())
    }

    fn write_pool(&self) -> &Pool<DB> {
        self.pools.write.as_ref().unwrap_or(&self.pools.read)
    }

    /// Reports a call, and ends it after the time limit.
    pub(super) async fn observe<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = Some(self.call_timeout);
        let call = self.explain(call);
        self.observer.observe(name, limit, call).await
    }

    /// Reports a call whose time depends on the number of rows.
    pub(super) async fn observe_without_limit<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.observer.observe(name, None, self.explain(call)).await
    }

    /// Names the tables as the reason if a statement failed because they belong to another version.
    async fn explain<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let result = call.await;
        if !matches!(&result, Err(error) if error.may_be_another_schema()) {
            return result;
        }
        let mut acquired = self.reader().await?;
        let checked = schema::check::<DB>(&mut acquired).await;
        acquired.finish();
        match checked {
            Err(error @ StoreError::Schema(_)) => Err(error),
            _ => result,
        }
    }

    /// Makes the files of the database give up deleted rows. Returns false if other connections prevent it now.
    pub(super) async fn purge_files(&self, purge: FilePurge) -> Result<bool, StoreError> {
        let mut acquired = self.writer().await?;
        let result = async {
            schema::check::<DB>(&mut acquired).await?;
            Ok(DB::purge_files(&mut acquired, purge).await?)
        };
        let result = result.await;
        acquired.finish();
        result
    }

    /// Creates or upgrades the tables. The migrator has transactions of its own.
    async fn run_migrations(&self) -> Result<(), StoreError> {
        match self.run_migrations_once().await {
            // SQLite takes no lock around all migrations. If two processes migrate at once, the second one fails
            // because the table exists. When it runs again, it finds the migration applied.
            Err(StoreError::Refused(_)) => self.run_migrations_once().await,
            done => done,
        }
    }

    /// A migrator that fails keeps its lock until its connection ends. The connection is therefore given back only after a
    /// success.
    async fn run_migrations_once(&self) -> Result<(), StoreError> {
        let mut acquired = self.writer().await?;
        DB::migrator()
            .run_direct(None, &mut *acquired, false)
            .await?;
        acquired.finish();
        Ok(())
    }
}

#[async_trait]
impl<DB: Dialect> Store for SqlStore<DB> {
    async fn migrate(&self) -> Result<(), StoreError> {
        self.observe_without_limit("migrate", self.run_migrations())
            .await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        query!(self, "ping", |connection| async {
            schema::check::<DB>(&mut *connection).await?;
            read::ping(connection).await
        })
    }

    async fn register_models(
        &self,
        models: &[Model],
        first_seen: OffsetDateTime,
    ) -> Result<(), StoreError> {
        change!(self, "register_models", |connection| save::register_models(
            connection, models, first_seen
        ))
    }

    async fn save_scan(&self, scan: NewScan) -> Result<SavedScan, StoreError> {
        save::check_scan(&scan)?;
        change!(self, "save_scan", |connection| save::save_scan(
            connection, &scan, None
        ))
    }

    async fn find_scan(
        &self,
        tenant: &str,
        sha256: &[u8; 32],
        scan_key: &[u8; 32],
    ) -> Result<Option<CachedScan>, StoreError> {
        snapshot!(self, "find_scan", |connection| read::find_scan(
            connection, tenant, sha256, scan_key
        ))
    }

    async fn cached_scan_ids(
        &self,
        tenant: &str,
        scan_key: &[u8; 32],
        sha256s: &[[u8; 32]],
    ) -> Result<Vec<([u8; 32], Uuid)>, StoreError> {
        query!(self, "cached_scan_ids", |connection| read::cached_scan_ids(
            connection,
            (tenant, scan_key),
            sha256s
        ))
    }

    async fn scans(&self, tenant: &str, ids: &[Uuid]) -> Result<Vec<CachedScan>, StoreError> {
        snapshot!(self, "scans", |connection| read::scans(
            connection, tenant, ids
        ))
    }

    async fn keep_scan(&self, scan: Uuid) -> Result<(), StoreError> {
        change!(self, "keep_scan", |connection| save::keep_scan(
            connection, scan
        ))
    }

    async fn add_source(
        &self,
        tenant: &str,
        image_id: Uuid,
        source: &Source,
    ) -> Result<bool, StoreError> {
        save::check_source(source)?;
        change!(self, "add_source", |connection| save::add_source_of(
            connection, tenant, image_id, source
        ))
    }

    async fn image(
        &self,
        tenant: &str,
        id: Uuid,
        scans: ScanPage,
    ) -> Result<Option<StoredImage>, StoreError> {
        snapshot!(self, "image", |connection| read::image(
            connection, tenant, id, scans
        ))
    }

    async fn face(&self, tenant: &str, id: Uuid) -> Result<Option<StoredFace>, StoreError> {
        query!(self, "face", |connection| read::face(
            connection, tenant, id
        ))
    }

    async fn list_images(
        &self,
        tenant: &str,
        filter: &ImageFilter,
        page: PageRequest,
    ) -> Result<Vec<ImageSummary>, StoreError> {
        query!(self, "list_images", |connection| read::list_images(
            connection, tenant, filter, page
        ))
    }

    fn connections(&self) -> ConnectionCounts {
        let pools = || {
            [Some(&self.pools.read), self.pools.write.as_ref()]
                .into_iter()
                .flatten()
        };
        ConnectionCounts {
            open: pools().map(|pool| pool.size() as usize).sum(),
            idle: pools().map(Pool::num_idle).sum(),
        }
    }

    async fn close(&self) {
        self.pools.read.close().await;
        if let Some(write_pool) = &self.pools.write {
            write_pool.close().await;
        }
    }
}
