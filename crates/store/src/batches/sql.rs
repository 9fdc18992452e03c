//! The [`BatchStore`] over either database.

use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    AddedItems, Batch, BatchFilter, BatchKey, BatchPage, BatchStore, CancelledBatch, ChunkEnd,
    ClaimRequest, CompleteRequest, CreatedBatch, Deletion, FinishedItems, Item, ItemFilter,
    ItemOutcome, ItemPage, Lease, LeasedChunk, NewBatch, NewItems, QueueDepth, ReadyChunk,
    announce, claim, delete, finish, manage, read, rows, submit,
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

    async fn add_items(&self, items: NewItems<'_>) -> Result<Option<AddedItems>, StoreError> {
        in_transaction!(self, |connection| submit::add_items(connection, items))
    }

    async fn complete_request(
        &self,
        request: CompleteRequest,
    ) -> Result<Option<Batch>, StoreError> {
        in_transaction!(self, |connection| submit::complete_request(
            connection, &request
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

    async fn delete_batch(&self, tenant: &str, batch: Uuid) -> Result<bool, StoreError> {
        in_transaction!(self, |connection| delete::mark(
            connection,
            (tenant, batch),
            Deletion::Erased
        ))
    }

    async fn expire_batches(&self, now: OffsetDateTime) -> Result<u64, StoreError> {
        in_transaction!(self, |connection| delete::expire(connection, now))
    }

    async fn deleted_batches(&self, limit: u32) -> Result<Vec<BatchKey>, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        delete::deleted(&mut *connection, limit).await
    }

    async fn purge_batch(&self, batch: Uuid, now: OffsetDateTime) -> Result<(), StoreError> {
        in_transaction!(self, |connection| delete::purge(connection, batch, now))
    }

    async fn batches_with_due_payloads(&self, limit: u32) -> Result<Vec<BatchKey>, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        delete::due_payloads(&mut *connection, limit).await
    }

    async fn finished_payloads(
        &self,
        batch: Uuid,
        after: Option<[u8; 32]>,
        limit: u32,
    ) -> Result<Vec<[u8; 32]>, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        delete::finished_payloads(&mut *connection, batch, (after, limit)).await
    }

    async fn payloads_swept(&self, batch: Uuid) -> Result<(), StoreError> {
        in_transaction!(self, |connection| delete::payloads_swept(connection, batch))
    }

    async fn result_of_payload(
        &self,
        batch: Uuid,
        payload: [u8; 32],
    ) -> Result<Option<serde_json::Value>, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        read::result_of_payload(&mut *connection, batch, payload).await
    }

    async fn sweep_cancelled(&self, now: OffsetDateTime) -> Result<u64, StoreError> {
        in_transaction!(self, |connection| finish::sweep_cancelled(
            connection,
            rows::micros(now)
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

    async fn unannounced_chunks(
        &self,
        now: OffsetDateTime,
        announced_before: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<ReadyChunk>, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        announce::unannounced(&mut *connection, (now, announced_before), limit).await
    }

    async fn mark_announced(
        &self,
        chunks: &[ReadyChunk],
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        in_transaction!(self, |connection| announce::mark(connection, chunks, now))
    }

    async fn queue_depth(&self, now: OffsetDateTime) -> Result<QueueDepth, StoreError> {
        let mut connection = self.read_pool().acquire().await?;
        read::queue_depth(&mut *connection, rows::micros(now)).await
    }
}
