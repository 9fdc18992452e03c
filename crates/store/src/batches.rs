//! Durable batches: images that an operation processes in the background.
//!
//! The items of a batch are divided into chunks. A worker leases a chunk, processes its items and finishes it. The lease
//! has a token, which grows each time that the chunk is leased. Every write of a worker names its token, so a worker that
//! lost its lease writes nothing.

mod claim;
mod finish;
mod manage;
mod read;
mod records;
mod rows;
mod sql;
mod submit;

use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use super::StoreError;

pub(super) use claim::next_chunk_sql;
pub use records::{
    AddedItems, Batch, BatchCounts, BatchFilter, BatchPage, BatchState, CancelledBatch, ChunkEnd,
    ClaimRequest, CreatedBatch, DeletedBatch, FinishedItems, Item, ItemFilter, ItemOutcome,
    ItemPage, ItemResult, ItemState, Lease, LeasedChunk, LeasedItem, MAX_MODELS_KEYS, NewBatch,
    NewItem, QueueDepth, ScanOutcome,
};

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
    /// If the tenant has a batch with this idempotency key, the call returns that one and writes nothing.
    async fn create_batch(&self, batch: &NewBatch) -> Result<CreatedBatch, StoreError>;

    /// Adds items to a batch that is open, and makes chunks of them. Returns `None` if there is no such batch or it is
    /// not open.
    ///
    /// `read` is the number of entries of the request that these items come from. It includes entries that were refused.
    /// An item whose id the batch already has is not added.
    async fn add_items(
        &self,
        batch: Uuid,
        items: &[NewItem],
        read: u64,
        now: OffsetDateTime,
    ) -> Result<Option<AddedItems>, StoreError>;

    /// Records that the whole request has arrived. Closes the batch unless `stays_open`.
    async fn complete_request(
        &self,
        batch: Uuid,
        digest: [u8; 32],
        stays_open: bool,
        now: OffsetDateTime,
    ) -> Result<Option<Batch>, StoreError>;

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

    /// Returns one page of the items of a batch, in order.
    async fn list_items(
        &self,
        batch: Uuid,
        filter: ItemFilter,
        page: ItemPage,
    ) -> Result<Vec<Item>, StoreError>;

    /// Cancels a batch. Chunks that a worker has are finished. Returns `None` if the tenant has no such batch.
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

    /// Deletes a batch with its items. Returns the objects that no other item uses. Returns `None` if the tenant has no
    /// such batch.
    async fn delete_batch(
        &self,
        tenant: &str,
        batch: Uuid,
    ) -> Result<Option<DeletedBatch>, StoreError>;

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

    /// Returns the number of waiting items and the age of the oldest ready chunk.
    async fn queue_depth(&self, now: OffsetDateTime) -> Result<QueueDepth, StoreError>;
}
