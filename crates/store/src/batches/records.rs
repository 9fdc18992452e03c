//! Batches and items, as callers of the store see them.

mod work;

use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::json_text::JsonText;
use crate::named::named;
use crate::record::record;
use crate::webhooks::BatchWebhook;

pub use work::*;

/// A batch to be created. The caller chooses the id and the time.
#[derive(Clone, Debug)]
pub struct NewBatch {
    /// The id, a UUID of version 7.
    pub id: Uuid,
    /// The tenant that owns the batch.
    pub tenant: String,
    /// The caller's name for it.
    pub name: Option<String>,
    /// The operation, by name.
    pub operation: String,
    /// The options, with every default filled in.
    pub options: Value,
    /// The models that make the results, as an object.
    pub models: Value,
    /// A digest of what decides the results, besides the options. A worker claims only chunks with a key of its own.
    pub models_key: [u8; 32],
    /// The priority, by name.
    pub priority: String,
    /// The caller's key for the request. A request that is repeated with this key finds the batch.
    pub idempotency_key: Option<String>,
    /// The number of items in a chunk, at least 1.
    pub chunk_size: u32,
    /// The time of the call.
    pub created_at: OffsetDateTime,
    /// When the batch is deleted.
    pub expires_at: Option<OffsetDateTime>,
    /// The header `traceparent` that names the span of the submission.
    pub traceparent: Option<String>,
    /// The id of the key that submits the batch. `None` if access is not controlled.
    pub key_id: Option<String>,
    /// The webhook that is told about the end of this batch only.
    pub webhook: Option<BatchWebhook>,
}

/// The result of creating a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum CreatedBatch {
    /// The batch is new.
    New(Batch),
    /// A batch with this idempotency key was there.
    Existing(Batch),
    /// The tenant has as many webhooks of one batch as it may have, so nothing was written.
    TooManyWebhooks,
}

named! {
    /// The state of a batch.
    #[derive(Deserialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum BatchState {
        /// It accepts more items. Its items are processed meanwhile.
        Open = "open",
        /// No item has started.
        Queued = "queued",
        /// Workers process its items.
        Running = "running",
        /// All its items are finished.
        Done = "done",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

record! {
    /// The number of items in each state.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct BatchCounts {
        /// Items that no worker has.
        pub queued: u64,
        /// Items of chunks that a worker has.
        pub running: u64,
        /// Items with a result.
        pub ok: u64,
        /// Items whose result was stored before. They count as `ok` too.
        pub cached: u64,
        /// Items that cannot be processed.
        pub error: u64,
        /// Items that failed at every attempt.
        pub dead: u64,
        /// Items that were cancelled.
        pub cancelled: u64,
    }

    /// A stored batch.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Batch {
        /// The id.
        pub id: Uuid,
        /// The tenant that owns it.
        pub tenant: String,
        /// The caller's name for it.
        pub name: Option<String>,
        /// The operation, by name.
        pub operation: String,
        /// The options.
        pub options: Value,
        /// The models that make the results.
        pub models: Value,
        /// The priority, by name.
        pub priority: String,
        /// The state.
        pub state: BatchState,
        /// The digest of the request. `None` until the whole request has arrived.
        pub request_digest: Option<[u8; 32]>,
        /// The response to the request, which a repeated request gets too. Lists of batches leave it out.
        pub receipt: Option<Value>,
        /// The number of entries of the request that were read, refused ones included.
        pub submitted: u64,
        /// The number of items.
        pub accepted: u64,
        /// The number of items in each state.
        pub counts: BatchCounts,
        /// When it was created.
        pub created_at: OffsetDateTime = get("created_at"),
        /// When a worker first claimed a chunk.
        pub started_at: Option<OffsetDateTime> = get("started_at"),
        /// When its last item was finished.
        pub finished_at: Option<OffsetDateTime> = get("finished_at"),
        /// When it is deleted.
        pub expires_at: Option<OffsetDateTime>,
        /// The header `traceparent` that names the span of the submission.
        pub traceparent: Option<String>,
        /// The id of the key that submitted it. `None` if access was not controlled.
        pub key_id: Option<String>,
    }
}

/// An item to be added.
#[derive(Clone, Debug, Default)]
pub struct NewItem {
    /// The caller's id. A batch has each id once.
    pub id: Option<String>,
    /// The sha256 of the bytes, which are in the object store.
    pub payload: Option<[u8; 32]>,
    /// Where to fetch the image if there are no bytes.
    pub url: Option<String>,
    /// The caller's name for the source.
    pub source: Option<String>,
    /// The address where the image was found.
    pub source_url: Option<String>,
    /// The caller's own data.
    pub metadata: Option<JsonText>,
}

/// The result of adding items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedItems {
    /// The number of items that were added.
    pub accepted: u64,
    /// The number of items whose id the batch had.
    pub duplicates: u64,
}

/// The batches to list.
#[derive(Clone, Debug, Default)]
pub struct BatchFilter {
    /// Only batches in this state.
    pub state: Option<BatchState>,
    /// Only batches with this name.
    pub name: Option<String>,
}

named! {
    /// The state of an item.
    #[derive(Deserialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum ItemState {
        /// It waits for a worker.
        Queued = "queued",
        /// A worker has its chunk.
        Running = "running",
        /// It has a result.
        Ok = "ok",
        /// It cannot be processed.
        Error = "error",
        /// It failed at every attempt.
        Dead = "dead",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

/// The items to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct ItemFilter {
    /// Only items in this state.
    pub state: Option<ItemState>,
}

/// One page of items.
#[derive(Clone, Copy, Debug)]
pub struct ItemPage {
    /// The last position of the previous page; `None` for the first page.
    pub after: Option<u64>,
    /// The maximum number of entries to return.
    pub limit: u32,
    /// The page ends before an item with which it would have more than about so many bytes as JSON. It has at least one item
    /// in any case. The bytes of files in the object store do not count.
    pub max_bytes: u64,
}

/// One page of items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemList {
    /// The items, in order.
    pub items: Vec<Item>,
    /// Whether there are items after the last one.
    pub has_more: bool,
}

/// A stored item.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The index in the batch, from 0.
    pub position: u64,
    /// The caller's id.
    pub id: Option<String>,
    /// The state.
    pub state: ItemState,
    /// The number of attempts so far.
    pub attempts: u32,
    /// Whether the result was stored before.
    pub cached: bool,
    /// The result, if the state is `ok`.
    pub result: ItemResult,
    /// The code and the text of the error.
    pub error: Option<(String, String)>,
    /// The caller's own data.
    pub metadata: Option<JsonText>,
}

/// The stored parts of an item's result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemResult {
    /// The scan with the result.
    pub scan_id: Option<Uuid>,
    /// The result of an operation that has no scan.
    pub result: Option<Value>,
}

/// A cancelled batch.
#[derive(Clone, Debug, PartialEq)]
pub struct CancelledBatch {
    /// The batch.
    pub batch: Batch,
    /// The number of items that will not be processed.
    pub cancelled: u64,
}

/// Entries of a request to be added to a batch.
#[derive(Clone, Copy, Debug)]
pub struct NewItems<'a> {
    /// The batch.
    pub batch: Uuid,
    /// The items.
    pub items: &'a [NewItem],
    /// The number of entries of the request that the items come from. It includes entries that were refused.
    pub read: u64,
    /// The number of entries that were read before. If the batch has another number, another request adds entries, and
    /// the call writes nothing. `None` does not check this.
    pub read_before: Option<u64>,
    /// The time of the call.
    pub now: OffsetDateTime,
}

/// The end of a request that created a batch.
#[derive(Clone, Debug)]
pub struct CompleteRequest {
    /// The batch.
    pub batch: Uuid,
    /// The digest of the whole request.
    pub digest: [u8; 32],
    /// The response to the request.
    pub receipt: Value,
    /// Whether the batch accepts more items.
    pub stays_open: bool,
    /// The time of the call.
    pub now: OffsetDateTime,
}

named! {
    /// Why a batch is deleted.
    pub enum Deletion {
        /// The tenant deleted it. Its results are deleted too.
        Erased = "erased",
        /// Its time is over. Its results stay.
        Expired = "expired",
    }
}

record! {
    /// A batch whose rows or objects are to be deleted.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BatchKey {
        /// The tenant that owns it.
        pub tenant: String,
        /// The id.
        pub id: Uuid,
    }
}
