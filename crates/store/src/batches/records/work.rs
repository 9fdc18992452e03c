//! The types of the calls of workers.

use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::record::record;
use crate::scans::NewScan;

/// A request for a chunk.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The name of the worker.
    pub owner: String,
    /// The keys of the models that the worker has, at most [`MAX_MODELS_KEYS`].
    pub models_keys: Vec<[u8; 32]>,
    /// The tenants whose chunks the worker does not take now.
    pub except: Vec<String>,
    /// The time of the call.
    pub now: OffsetDateTime,
    /// The end of the lease.
    pub until: OffsetDateTime,
}

/// The maximum number of keys of a [`ClaimRequest`]. There is one for each operation.
pub const MAX_MODELS_KEYS: usize = 8;

/// The right to write the results of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The batch.
    pub batch: Uuid,
    /// The number of the chunk.
    pub chunk: u32,
    /// The token, which grows with each lease of the chunk.
    pub token: u64,
}

/// A chunk that a worker has leased.
#[derive(Clone, Debug, PartialEq)]
pub struct LeasedChunk {
    /// The lease.
    pub lease: Lease,
    /// The tenant.
    pub tenant: String,
    /// The operation, by name.
    pub operation: String,
    /// The options.
    pub options: Value,
    /// The priority, by name.
    pub priority: String,
    /// The header `traceparent` that names the span of the submission.
    pub traceparent: Option<String>,
    /// The id of the key that submitted the batch.
    pub key_id: Option<String>,
    /// The number of leases that expired before the worker returned the chunk.
    pub expired_leases: u32,
    /// The items that are not finished, in order.
    pub items: Vec<LeasedItem>,
}

record! {
    /// An item of a leased chunk.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LeasedItem {
        /// The index in the batch.
        pub position: u64,
        /// The number of attempts so far.
        pub attempts: u32,
        /// The sha256 of the bytes, which are in the object store.
        pub payload: Option<[u8; 32]>,
        /// Where to fetch the image if there are no bytes.
        pub url: Option<String>,
        /// The caller's name for the source.
        pub source: Option<String>,
        /// The address where the image was found.
        pub source_url: Option<String>,
    }
}

impl LeasedItem {
    /// Returns whether the caller named a source of the image.
    pub fn has_source(&self) -> bool {
        self.source.is_some() || self.source_url.is_some()
    }
}

/// The outcome of an item.
#[derive(Clone, Debug)]
pub enum ItemOutcome {
    /// It has a result.
    Ok {
        /// The index in the batch.
        position: u64,
        /// The scan with the result, if the operation has scans.
        scan: Option<ScanOutcome>,
        /// The result of an operation that has no scan.
        result: Option<Value>,
        /// Whether the result was made for another item of the batch. Only for an operation that has no scan.
        is_copy: bool,
    },
    /// It failed for good.
    Failed {
        /// The index in the batch.
        position: u64,
        /// Whether it failed at every attempt, and another attempt could succeed.
        is_dead: bool,
        /// The code of the error.
        code: String,
        /// The text of the error.
        detail: String,
    },
    /// It failed, and another attempt may succeed.
    Retry {
        /// The index in the batch.
        position: u64,
        /// The code of the error.
        code: String,
        /// The text of the error.
        detail: String,
    },
}

/// The scan of an item.
#[derive(Clone, Debug)]
pub enum ScanOutcome {
    /// A scan to be saved.
    New(Box<NewScan>),
    /// A scan that was stored before.
    Cached(Uuid),
}

/// What happens to a chunk after some of its items are finished.
#[derive(Clone, Copy, Debug)]
pub enum ChunkEnd {
    /// The worker keeps the lease.
    Keep,
    /// The worker gives the chunk back. Items that are not finished wait until `retry_at`.
    Return {
        /// The time of the call.
        now: OffsetDateTime,
        /// When the chunk can be claimed again.
        retry_at: OffsetDateTime,
    },
}

/// What a call of [`finish_items`](crate::Store::finish_items) changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinishedItems {
    /// The number of items that are finished now and were not before.
    pub finished: u64,
    /// Whether the batch is done now.
    pub is_batch_done: bool,
}

record! {
    /// A chunk that is ready for a worker.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReadyChunk {
        /// The batch.
        pub batch: Uuid = get("batch_id"),
        /// The number of the chunk.
        pub number: u32,
        /// The token of its last lease.
        pub token: u64 = number("lease_token"),
        /// The tenant.
        pub tenant: String,
        /// The priority, by name.
        pub priority: String,
    }

    /// The work that waits.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct QueueDepth {
        /// The number of items that no worker has.
        pub queued: u64,
        /// The number of items of leased chunks.
        pub running: u64,
        /// When the oldest chunk that is ready became ready.
        pub oldest_ready_at: Option<OffsetDateTime> = optional_time("oldest"),
    }
}
