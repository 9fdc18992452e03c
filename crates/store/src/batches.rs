//! Durable batches: images that an operation processes in the background.
//!
//! The items of a batch are divided into chunks. A worker leases a chunk, processes its items and finishes it. The lease
//! has a token, which grows each time that the chunk is leased. Every write of a worker names its token, so a worker that
//! lost its lease writes nothing.

mod announce;
mod claim;
mod delete;
mod finish;
mod manage;
mod read;
mod records;
mod rows;
mod sql;
mod submit;

use async_trait::async_trait;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::StoreError;

pub(super) use claim::next_chunk_sql;
pub(crate) use delete::mark as mark_deleted;
pub use records::{
    AddedItems, Batch, BatchCounts, BatchFilter, BatchKey, BatchPage, BatchState, CancelledBatch,
    ChunkEnd, ClaimRequest, CompleteRequest, CreatedBatch, Deletion, FinishedItems, Item,
    ItemFilter, ItemList, ItemOutcome, ItemPage, ItemResult, ItemState, Lease, LeasedChunk,
    LeasedItem, MAX_MODELS_KEYS, NewBatch, NewItem, NewItems, QueueDepth, ReadyChunk, ScanOutcome,
};
pub(super) use rows::{from_micros, micros};
pub(crate) use submit::finish_if_done;

/// The batches of one database.
///
/// A call for one tenant neither sees nor changes the rows of another. The calls of workers see the batches of all
/// tenants.
///
/// # Transactions
///
/// Each call that changes rows is one transaction.
///
/// # Errors
///
/// As for [`Store`](super::Store).
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Creates a batch without items.
    ///
    /// If the tenant has a batch with this idempotency key, the call returns that one and writes nothing. The webhook of the
    /// batch and its audit entry are written with it.
    async fn create_batch(&self, batch: &NewBatch) -> Result<CreatedBatch, StoreError>;

    /// Adds items to a batch that is open, and makes chunks of them. Returns `None` if there is no such batch, if it is not
    /// open, or if another request adds entries too.
    ///
    /// An item whose id the batch already has is not added.
    async fn add_items(&self, items: NewItems<'_>) -> Result<Option<AddedItems>, StoreError>;

    /// Records that the whole request has arrived. Closes the batch unless it stays open.
    async fn complete_request(&self, request: CompleteRequest)
    -> Result<Option<Batch>, StoreError>;

    /// Closes an open batch. It accepts no more items. Returns `None` if the tenant has no such batch.
    async fn close_batch(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<Batch>, StoreError>;

    /// Returns a batch.
    async fn batch(&self, tenant: &str, batch: Uuid) -> Result<Option<Batch>, StoreError>;

    /// Returns one page of the tenant's batches, newest first.
    async fn list_batches(
        &self,
        tenant: &str,
        filter: &BatchFilter,
        page: BatchPage,
    ) -> Result<Vec<Batch>, StoreError>;

    /// Returns one page of the items of a batch, in order. The rest of the items is measured by the database and not loaded.
    async fn list_items(
        &self,
        batch: Uuid,
        filter: ItemFilter,
        page: ItemPage,
    ) -> Result<ItemList, StoreError>;

    /// Cancels a batch. A chunk that a worker has ends when the worker returns it, or with its lease. Returns `None` if the tenant has no such batch.
    async fn cancel_batch(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<CancelledBatch>, StoreError>;

    /// Queues the items that ended with an error or died. Returns their number, or `None` if the tenant has no such batch.
    async fn retry_items(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<u64>, StoreError>;

    /// Marks a batch as deleted. Every call but [`purge_batch`](Self::purge_batch) and
    /// [`deleted_batches`](Self::deleted_batches) treats it as absent from then on. Returns false if the tenant has no such
    /// batch.
    async fn delete_batch(&self, tenant: &str, batch: Uuid) -> Result<bool, StoreError>;

    /// Marks the batches as deleted whose time is over. Returns their number.
    async fn expire_batches(&self, now: OffsetDateTime) -> Result<u64, StoreError>;

    /// Returns batches that are marked as deleted, and whose rows are still there.
    async fn deleted_batches(&self, limit: u32) -> Result<Vec<BatchKey>, StoreError>;

    /// Deletes the rows of a batch that is marked as deleted. Delete its objects first.
    ///
    /// If the tenant deleted the batch, this also deletes the scans that it made and that no other batch and no request was
    /// answered with, and the images that then have no scan. A row with the counts stays.
    async fn purge_batch(&self, batch: Uuid, now: OffsetDateTime) -> Result<(), StoreError>;

    /// Returns batches that ended since the last sweep of their payloads.
    async fn batches_with_due_payloads(&self, limit: u32) -> Result<Vec<BatchKey>, StoreError>;

    /// Returns payloads of a batch whose items all have a result, in order. `after` is the last one of the previous page.
    async fn finished_payloads(
        &self,
        batch: Uuid,
        after: Option<[u8; 32]>,
        limit: u32,
    ) -> Result<Vec<[u8; 32]>, StoreError>;

    /// Records that the finished payloads of a batch were deleted.
    async fn payloads_swept(&self, batch: Uuid) -> Result<(), StoreError>;

    /// Returns the result of another item of the batch with this payload. Only items of an operation without scans have one.
    async fn result_of_payload(
        &self,
        batch: Uuid,
        payload: [u8; 32],
    ) -> Result<Option<Value>, StoreError>;

    /// Ends the chunks of cancelled batches whose worker lost its lease. Returns the number of chunks.
    async fn sweep_cancelled(&self, now: OffsetDateTime) -> Result<u64, StoreError>;

    /// Returns those of some batches that are neither cancelled nor deleted.
    async fn active_batches(&self, batches: &[Uuid]) -> Result<Vec<Uuid>, StoreError>;

    /// Leases the next chunk to a worker. Returns `None` if no chunk is ready.
    ///
    /// Tenants take turns by the number of items that they have had, and so do the batches of a tenant.
    async fn claim_chunk(&self, request: &ClaimRequest) -> Result<Option<LeasedChunk>, StoreError>;

    /// Moves the end of a lease. Returns false if the lease is lost.
    async fn extend_lease(&self, lease: &Lease, until: OffsetDateTime) -> Result<bool, StoreError>;

    /// Counts an attempt of an item before it begins, so that the attempt counts even if the process dies. Returns false
    /// if the lease is lost.
    async fn begin_item(&self, lease: &Lease, position: u64) -> Result<bool, StoreError>;

    /// Saves the outcomes of some items of a leased chunk. Returns `None`, and writes nothing, if the lease is lost.
    ///
    /// An item that is finished already keeps its first result.
    async fn finish_items(
        &self,
        lease: &Lease,
        outcomes: &[ItemOutcome],
        end: ChunkEnd,
    ) -> Result<Option<FinishedItems>, StoreError>;

    /// Returns chunks that are ready and of which a message queue was not told, or not since `announced_before`. The oldest
    /// come first.
    async fn unannounced_chunks(
        &self,
        now: OffsetDateTime,
        announced_before: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<ReadyChunk>, StoreError>;

    /// Records that a message queue was told of chunks.
    async fn mark_announced(
        &self,
        chunks: &[ReadyChunk],
        now: OffsetDateTime,
    ) -> Result<(), StoreError>;

    /// Returns the number of a tenant's items that are not finished.
    async fn waiting_items(&self, tenant: &str) -> Result<u64, StoreError>;

    /// Returns the number of waiting items and the age of the oldest ready chunk.
    async fn queue_depth(&self, now: OffsetDateTime) -> Result<QueueDepth, StoreError>;
}
