//! The [`BatchStore`] over either database.

use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    AddedItems, Batch, BatchFilter, BatchPage, BatchStore, CancelledBatch, ChunkEnd, ClaimRequest,
    CreatedBatch, DeletedBatch, FinishedItems, Item, ItemFilter, ItemOutcome, ItemPage, Lease,
    LeasedChunk, NewBatch, NewItem, QueueDepth, claim, finish, manage, read, rows, submit,
};
use crate::{StoreError, dialect::Dialect, sql_store::SqlStore};

/// Runs a call in a transaction that changes rows, and commits it.
macro_rules! in_transaction {
    ($store:ident, |$connection:ident| $call:expr) => {{
        let mut transaction = $store.begin_write().await?;
        let $connection = &mut *transaction;
        let result = $call.await?;
        transaction.commit().await?;
        Ok(result)
    }};
}

#[async_trait]
impl<DB: Dialect> BatchStore for SqlStore<DB> {
    async fn create_batch(&self, batch: &NewBatch) -> Result<CreatedBatch, StoreError> {
        in_transaction!(self, |connection| submit::create_batch(connection, batch))
    }

    async fn add_items(
        &self,
        batch: Uuid,
        items: &[NewItem],
        read: u64,
        now: OffsetDateTime,
    ) -> Result<Option<AddedItems>, StoreError> {
        in_transaction!(self, |connection| submit::add_items(
            connection,
            batch,
            items,
            (read, now)
        ))
    }

    async fn complete_request(
        &self,
        batch: Uuid,
        digest: [u8; 32],
        stays_open: bool,
        now: OffsetDateTime,
    ) -> Result<Option<Batch>, StoreError> {
        in_transaction!(self, |connection| submit::complete_request(
            connection,
            batch,
            (digest, stays_open),
            now
        ))
    }

    async fn close_batch(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<Batch>, StoreError> {
        in_transaction!(self, |connection| submit::close_batch(
            connection,
            (tenant, batch),
            now
        ))
    }

    async fn batch(&self, tenant: &str, batch: Uuid) -> Result<Option<Batch>, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        read::batch(&mut *connection, tenant, batch).await
    }

    async fn list_batches(
        &self,
        tenant: &str,
        filter: &BatchFilter,
        page: BatchPage,
    ) -> Result<Vec<Batch>, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        read::list_batches(&mut *connection, tenant, filter, page).await
    }

    async fn list_items(
        &self,
        batch: Uuid,
        filter: ItemFilter,
        page: ItemPage,
    ) -> Result<Vec<Item>, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        read::list_items(&mut *connection, batch, filter, page).await
    }

    async fn cancel_batch(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<CancelledBatch>, StoreError> {
        in_transaction!(self, |connection| manage::cancel_batch(
            connection,
            (tenant, batch),
            now
        ))
    }

    async fn retry_items(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<u64>, StoreError> {
        in_transaction!(self, |connection| manage::retry_items(
            connection,
            (tenant, batch),
            now
        ))
    }

    async fn delete_batch(
        &self,
        tenant: &str,
        batch: Uuid,
    ) -> Result<Option<DeletedBatch>, StoreError> {
        in_transaction!(self, |connection| manage::delete_batch(
            connection, tenant, batch
        ))
    }

    async fn claim_chunk(&self, request: &ClaimRequest) -> Result<Option<LeasedChunk>, StoreError> {
        in_transaction!(self, |connection| claim::claim_chunk::<DB>(
            connection, request
        ))
    }

    async fn extend_lease(&self, lease: &Lease, until: OffsetDateTime) -> Result<bool, StoreError> {
        in_transaction!(self, |connection| claim::extend_lease(
            connection, lease, until
        ))
    }

    async fn begin_item(&self, lease: &Lease, position: u64) -> Result<bool, StoreError> {
        in_transaction!(self, |connection| claim::begin_item(
            connection, lease, position
        ))
    }

    async fn finish_items(
        &self,
        lease: &Lease,
        outcomes: &[ItemOutcome],
        end: ChunkEnd,
    ) -> Result<Option<FinishedItems>, StoreError> {
        in_transaction!(self, |connection| finish::finish_items(
            connection, lease, outcomes, end
        ))
    }

    async fn queue_depth(&self, now: OffsetDateTime) -> Result<QueueDepth, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        read::queue_depth(&mut *connection, rows::micros(now)).await
    }
}
