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
mod outcomes;
mod read;
mod records;
mod rows;
mod submit;

pub(crate) use delete::mark_deleted;
pub use records::{
    AddedItems, Batch, BatchCounts, BatchFilter, BatchKey, BatchState, CancelledBatch, ChunkEnd,
    ClaimRequest, CompleteRequest, CreatedBatch, Deletion, FinishedItems, Item, ItemFilter,
    ItemList, ItemOutcome, ItemPage, ItemResult, ItemState, Lease, LeasedChunk, LeasedItem,
    MAX_MODELS_KEYS, NewBatch, NewItem, NewItems, QueueDepth, ReadyChunk, ScanOutcome,
};
pub(crate) use submit::finish_if_done;
