//! The [`Store`] over either database.
//!
//! A method that writes rows or runs several queries uses one transaction. A method with one query uses a connection. The
//! migrator handles its own transactions.

use async_trait::async_trait;
use sqlx::{Pool, Transaction};
use time::OffsetDateTime;
use uuid::Uuid;

use super::dialect::{Dialect, Statements};
use super::records::{
    CachedScan, ImageFilter, ImageSummary, Model, NewScan, PageRequest, SavedScan, Source,
    StoredFace, StoredImage,
};
use super::{ConnectionCounts, Store, StoreError, delete, read, save};

/// A store in a database of type `DB`.
pub(super) struct SqlStore<DB: Dialect> {
    read_pool: Pool<DB>,
    /// The pool for writes. `None` if writes use the pool for reads.
    write_pool: Option<Pool<DB>>,
}

impl<DB: Dialect> SqlStore<DB> {
    /// Creates a store that reads through `read_pool`. It writes through `write_pool`, or through `read_pool` if there is
    /// no other pool.
    pub(super) fn new(read_pool: Pool<DB>, write_pool: Option<Pool<DB>>) -> Self {
        Self {
            read_pool,
            write_pool,
        }
    }

    pub(super) fn read_pool(&self) -> &Pool<DB> {
        &self.read_pool
    }

    fn write_pool(&self) -> &Pool<DB> {
        self.write_pool.as_ref().unwrap_or(&self.read_pool)
    }

    async fn begin_read(&self) -> Result<Transaction<'static, DB>, StoreError> {
        Ok(self.read_pool.begin_with(DB::BEGIN_READ).await?)
    }

    pub(super) async fn begin_write(&self) -> Result<Transaction<'static, DB>, StoreError> {
        Ok(self.write_pool().begin_with(DB::BEGIN_WRITE).await?)
    }
}

#[async_trait]
impl<DB: Dialect> Store for SqlStore<DB> {
    async fn migrate(&self) -> Result<(), StoreError> {
        let migrator = DB::migrator();
        match migrator
            .run(self.write_pool())
            .await
            .map_err(StoreError::from)
        {
            // SQLite takes no lock around all migrations. If two processes migrate at once, the second one fails
            // because the table exists. When it runs again, it finds the migration applied.
            Err(StoreError::Refused(_)) => Ok(migrator.run(self.write_pool()).await?),
            done => done,
        }
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.read_pool
            .acquire()
            .await?
            .execute("SELECT 1 FROM images LIMIT 1", &[])
            .await?;
        Ok(())
    }

    async fn register_models(
        &self,
        models: &[Model],
        first_seen: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        save::register_models(&mut *transaction, models, first_seen).await?;
        Ok(transaction.commit().await?)
    }

    async fn save_scan(&self, scan: NewScan) -> Result<SavedScan, StoreError> {
        save::check_scan(&scan)?;
        let mut transaction = self.begin_write().await?;
        let saved = save::save_scan(&mut *transaction, &scan, None).await?;
        transaction.commit().await?;
        Ok(saved)
    }

    async fn find_scan(
        &self,
        tenant: &str,
        sha256: &[u8; 32],
        scan_key: &[u8; 32],
    ) -> Result<Option<CachedScan>, StoreError> {
        let mut transaction = self.begin_read().await?;
        let scan = read::find_scan(&mut *transaction, tenant, sha256, scan_key).await?;
        transaction.commit().await?;
        Ok(scan)
    }

    async fn cached_scan_ids(
        &self,
        tenant: &str,
        scan_key: &[u8; 32],
        sha256s: &[[u8; 32]],
    ) -> Result<Vec<([u8; 32], Uuid)>, StoreError> {
        let mut connection = self.read_pool.acquire().await?;
        read::cached_scan_ids(&mut *connection, (tenant, scan_key), sha256s).await
    }

    async fn scans(&self, tenant: &str, ids: &[Uuid]) -> Result<Vec<CachedScan>, StoreError> {
        let mut transaction = self.begin_read().await?;
        let scans = read::scans(&mut *transaction, tenant, ids).await?;
        transaction.commit().await?;
        Ok(scans)
    }

    async fn keep_scan(&self, scan: Uuid) -> Result<(), StoreError> {
        let mut transaction = self.begin_write().await?;
        save::keep_scan(&mut *transaction, scan).await?;
        Ok(transaction.commit().await?)
    }

    async fn add_source(
        &self,
        tenant: &str,
        image_id: Uuid,
        source: &Source,
    ) -> Result<bool, StoreError> {
        save::check_source(source)?;
        let mut transaction = self.begin_write().await?;
        let found = save::add_source_of(&mut *transaction, tenant, image_id, source).await?;
        transaction.commit().await?;
        Ok(found)
    }

    async fn image(&self, tenant: &str, id: Uuid) -> Result<Option<StoredImage>, StoreError> {
        let mut transaction = self.begin_read().await?;
        let image = read::image(&mut *transaction, tenant, id).await?;
        transaction.commit().await?;
        Ok(image)
    }

    async fn face(&self, tenant: &str, id: Uuid) -> Result<Option<StoredFace>, StoreError> {
        let mut connection = self.read_pool.acquire().await?;
        read::face(&mut *connection, tenant, id).await
    }

    async fn list_images(
        &self,
        tenant: &str,
        filter: &ImageFilter,
        page: PageRequest,
    ) -> Result<Vec<ImageSummary>, StoreError> {
        let mut connection = self.read_pool.acquire().await?;
        read::list_images(&mut *connection, tenant, filter, page).await
    }

    async fn delete_image(&self, tenant: &str, id: Uuid) -> Result<bool, StoreError> {
        let mut transaction = self.begin_write().await?;
        let found = delete::delete_image(&mut *transaction, tenant, id).await?;
        transaction.commit().await?;
        Ok(found)
    }

    async fn delete_face(&self, tenant: &str, id: Uuid) -> Result<bool, StoreError> {
        let mut transaction = self.begin_write().await?;
        let found = delete::delete_face(&mut *transaction, tenant, id).await?;
        transaction.commit().await?;
        Ok(found)
    }

    fn connections(&self) -> ConnectionCounts {
        let pools = || {
            [Some(&self.read_pool), self.write_pool.as_ref()]
                .into_iter()
                .flatten()
        };
        ConnectionCounts {
            open: pools().map(|pool| pool.size() as usize).sum(),
            idle: pools().map(Pool::num_idle).sum(),
        }
    }

    async fn close(&self) {
        self.read_pool.close().await;
        if let Some(write_pool) = &self.write_pool {
            write_pool.close().await;
        }
    }
}
