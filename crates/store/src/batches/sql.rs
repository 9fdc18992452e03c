//! The [`BatchStore`] over either database.

use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    AddedItems, Batch, BatchFilter, BatchKey, BatchPage, BatchStore, CancelledBatch, ChunkEnd,
    ClaimRequest, CompleteRequest, CreatedBatch, Deletion, FinishedItems, ItemFilter, ItemList,
    ItemOutcome, ItemPage, Lease, LeasedChunk, NewBatch, NewItems, QueueDepth, ReadyChunk,
    announce, claim, delete, finish, manage, read, rows, submit,
};
use crate::{
    StoreError,
    call::{change, query, snapshot},
    dialect::Dialect,
    sql_store::SqlStore,
};

#[async_trait]
impl<DB: Dialect> BatchStore for SqlStore<DB> {
    async fn create_batch(&self, batch: &NewBatch) -> Result<CreatedBatch, StoreError> {
        change!(self, "create_batch", |connection| submit::create_batch(
            connection, batch
        ))
    }

    async fn add_items(&self, items: NewItems<'_>) -> Result<Option<AddedItems>, StoreError> {
        change!(self, "add_items", |connection| submit::add_items(
            connection, items
        ))
    }

    async fn complete_request(
        &self,
        request: CompleteRequest,
    ) -> Result<Option<Batch>, StoreError> {
        change!(self, "complete_request", |connection| {
            submit::complete_request(connection, &request)
        })
    }

    async fn close_batch(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<Batch>, StoreError> {
        change!(self, "close_batch", |connection| submit::close_batch(
            connection,
            (tenant, batch),
            now
        ))
    }

    async fn batch(&self, tenant: &str, batch: Uuid) -> Result<Option<Batch>, StoreError> {
        query!(self, "batch", |connection| read::batch(
            connection, tenant, batch
        ))
    }

    async fn list_batches(
        &self,
        tenant: &str,
        filter: &BatchFilter,
        page: BatchPage,
    ) -> Result<Vec<Batch>, StoreError> {
        query!(self, "list_batches", |connection| read::list_batches(
            connection, tenant, filter, page
        ))
    }

    async fn list_items(
        &self,
        batch: Uuid,
        filter: ItemFilter,
        page: ItemPage,
    ) -> Result<ItemList, StoreError> {
        snapshot!(self, "list_items", |connection| read::list_items(
            connection, batch, filter, page
        ))
    }

    async fn cancel_batch(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<CancelledBatch>, StoreError> {
        change!(self, "cancel_batch", no limit, |connection| manage::cancel_batch(
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
        change!(self, "retry_items", no limit, |connection| manage::retry_items(
            connection,
            (tenant, batch),
            now
        ))
    }

    async fn delete_batch(&self, tenant: &str, batch: Uuid) -> Result<bool, StoreError> {
        change!(self, "delete_batch", |connection| delete::mark(
            connection,
            (tenant, batch),
            Deletion::Erased
        ))
    }

    async fn expire_batches(&self, now: OffsetDateTime) -> Result<u64, StoreError> {
        change!(self, "expire_batches", |connection| delete::expire(
            connection, now
        ))
    }

    async fn deleted_batches(&self, limit: u32) -> Result<Vec<BatchKey>, StoreError> {
        query!(self, "deleted_batches", |connection| delete::deleted(
            connection, limit
        ))
    }

    async fn purge_batch(&self, batch: Uuid, now: OffsetDateTime) -> Result<(), StoreError> {
        change!(self, "purge_batch", no limit, |connection| delete::purge(connection, batch, now))
    }

    async fn batches_with_due_payloads(&self, limit: u32) -> Result<Vec<BatchKey>, StoreError> {
        query!(self, "batches_with_due_payloads", |connection| {
            delete::due_payloads(connection, limit)
        })
    }

    async fn finished_payloads(
        &self,
        batch: Uuid,
        after: Option<[u8; 32]>,
        limit: u32,
    ) -> Result<Vec<[u8; 32]>, StoreError> {
        query!(self, "finished_payloads", |connection| {
            delete::finished_payloads(connection, batch, (after, limit))
        })
    }

    async fn payloads_swept(&self, batch: Uuid) -> Result<(), StoreError> {
        change!(self, "payloads_swept", |connection| delete::payloads_swept(
            connection, batch
        ))
    }

    async fn result_of_payload(
        &self,
        batch: Uuid,
        payload: [u8; 32],
    ) -> Result<Option<serde_json::Value>, StoreError> {
        query!(self, "result_of_payload", |connection| {
            read::result_of_payload(connection, batch, payload)
        })
    }

    async fn sweep_cancelled(&self, now: OffsetDateTime) -> Result<u64, StoreError> {
        change!(self, "sweep_cancelled", |connection| {
            finish::sweep_cancelled(connection, rows::micros(now))
        })
    }

    async fn active_batches(&self, batches: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
        query!(self, "active_batches", |connection| read::active(
            connection, batches
        ))
    }

    async fn claim_chunk(&self, request: &ClaimRequest) -> Result<Option<LeasedChunk>, StoreError> {
        change!(self, "claim_chunk", |connection| claim::claim_chunk::<DB>(
            connection, request
        ))
    }

    async fn extend_lease(&self, lease: &Lease, until: OffsetDateTime) -> Result<bool, StoreError> {
        change!(self, "extend_lease", |connection| claim::extend_lease(
            connection, lease, until
        ))
    }

    async fn begin_item(&self, lease: &Lease, position: u64) -> Result<bool, StoreError> {
        change!(self, "begin_item", |connection| claim::begin_item(
            connection, lease, position
        ))
    }

    async fn finish_items(
        &self,
        lease: &Lease,
        outcomes: &[ItemOutcome],
        end: ChunkEnd,
    ) -> Result<Option<FinishedItems>, StoreError> {
        change!(self, "finish_items", |connection| finish::finish_items(
            connection, lease, outcomes, end
        ))
    }

    async fn unannounced_chunks(
        &self,
        now: OffsetDateTime,
        announced_before: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<ReadyChunk>, StoreError> {
        query!(self, "unannounced_chunks", |connection| {
            announce::unannounced(connection, (now, announced_before), limit)
        })
    }

    async fn mark_announced(
        &self,
        chunks: &[ReadyChunk],
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        change!(self, "mark_announced", |connection| announce::mark(
            connection, chunks, now
        ))
    }

    async fn waiting_items(&self, tenant: &str) -> Result<u64, StoreError> {
        query!(self, "waiting_items", |connection| read::waiting_items(
            connection, tenant
        ))
    }

    async fn queue_depth(&self, now: OffsetDateTime) -> Result<QueueDepth, StoreError> {
        query!(self, "queue_depth", |connection| read::queue_depth(
            connection,
            rows::micros(now)
        ))
    }
}
