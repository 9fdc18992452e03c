//! Rows of the tables of batches, and their conversion to and from records.

use sqlx::types::JsonValue;
use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{
    Batch, BatchCounts, BatchState, Item, ItemResult, ItemState, Lease, LeasedChunk, LeasedItem,
    NewItem,
};
use crate::error::StoreError;
use crate::json_text::JsonText;
use crate::record::record;
use crate::times::from_micros;
use crate::values::{Digest, Value};

/// The columns of [`BatchRow`], with another receipt if one is given. The state follows from the others.
macro_rules! batch_columns {
    () => {
        batch_columns!("b.receipt")
    };
    ($receipt:literal) => {
        concat!(
            "b.id, b.tenant, b.name, b.operation, b.options, b.models, b.priority, b.request_digest, ",
            $receipt,
            " AS receipt, b.submitted, b.accepted, b.queued, b.running, b.ok, b.cached, b.error, b.dead, \
             b.cancelled, b.created_at, b.started_at, b.finished_at, b.expires_at, b.traceparent, b.key_id, \
             CASE WHEN b.cancelled_at IS NOT NULL THEN 'cancelled' \
                  WHEN b.finished_at IS NOT NULL THEN 'done' \
                  WHEN b.is_open THEN 'open' \
                  WHEN b.started_at IS NOT NULL THEN 'running' \
                  ELSE 'queued' END AS state"
        )
    };
}
pub(super) use batch_columns;

record! {
    pub(super) struct BatchRow {
        id: Uuid,
        tenant: String,
        name: Option<String>,
        operation: String,
        options: JsonValue,
        models: JsonValue,
        priority: String,
        request_digest: Option<Digest>,
        receipt: Option<JsonValue>,
        submitted: i64,
        accepted: i64,
        queued: i64,
        running: i64,
        ok: i64,
        cached: i64,
        error: i64,
        dead: i64,
        cancelled: i64,
        created_at: OffsetDateTime,
        started_at: Option<OffsetDateTime>,
        finished_at: Option<OffsetDateTime>,
        expires_at: Option<i64>,
        traceparent: Option<String>,
        key_id: Option<String>,
        state: String,
    }
}

impl TryFrom<BatchRow> for Batch {
    type Error = StoreError;

    fn try_from(row: BatchRow) -> Result<Self, StoreError> {
        let id = row.id;
        let count = |value: i64| {
            let damaged = |_| StoreError::corrupt(format!("a count of batch {id}"));
            u64::try_from(value).map_err(damaged)
        };
        let named = |state: &BatchState| state.name() == row.state;
        let state = BatchState::ALL.into_iter().find(named);
        Ok(Self {
            id,
            tenant: row.tenant,
            name: row.name,
            operation: row.operation,
            options: row.options,
            models: row.models,
            priority: row.priority,
            state: state.ok_or_else(|| StoreError::corrupt(format!("the state of batch {id}")))?,
            request_digest: row.request_digest.map(|digest| digest.0),
            receipt: row.receipt,
            submitted: count(row.submitted)?,
            accepted: count(row.accepted)?,
            counts: BatchCounts {
                queued: count(row.queued)?,
                running: count(row.running)?,
                ok: count(row.ok)?,
                cached: count(row.cached)?,
                error: count(row.error)?,
                dead: count(row.dead)?,
                cancelled: count(row.cancelled)?,
            },
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            expires_at: row.expires_at.and_then(from_micros),
            traceparent: row.traceparent,
            key_id: row.key_id,
        })
    }
}

// An item to be inserted. The other columns begin with the same values in every row.
pub(super) struct NewItemRow<'a> {
    batch_id: &'a Uuid,
    position: i64,
    payload: Option<Digest>,
    item: &'a NewItem,
}

impl<'a> NewItemRow<'a> {
    pub(super) const INTO: &'static str = "batch_items (batch_id, position, item_id, \
         payload, url, source, source_url, metadata, state, attempts, cached)";

    pub(super) fn new(batch_id: &'a Uuid, position: i64, item: &'a NewItem) -> Self {
        Self {
            batch_id,
            position,
            payload: item.payload.map(Digest),
            item,
        }
    }

    /// Returns the values for [`Self::INTO`].
    pub(super) fn values(&self) -> [&dyn Value; 11] {
        let item = self.item;
        [
            self.batch_id,
            &self.position,
            &item.id,
            &self.payload,
            &item.url,
            &item.source,
            &item.source_url,
            &item.metadata,
            &"queued",
            &0_i32,
            &false,
        ]
    }
}

record! {
    pub(super) struct ItemRow {
        position: i64,
        item_id: Option<String>,
        metadata: Option<JsonText>,
        state: String,
        attempts: i32,
        cached: bool,
        scan_id: Option<Uuid>,
        result: Option<JsonValue>,
        error_code: Option<String>,
        error_detail: Option<String>,
    }
}

impl TryFrom<ItemRow> for Item {
    type Error = StoreError;

    fn try_from(row: ItemRow) -> Result<Self, StoreError> {
        let damaged = |what| StoreError::corrupt(format!("the {what} of item {}", row.position));
        let named = |state: &ItemState| state.name() == row.state;
        let state = ItemState::ALL.into_iter().find(named);
        Ok(Self {
            position: row.position.try_into().map_err(|_| damaged("position"))?,
            state: state.ok_or_else(|| damaged("state"))?,
            attempts: row.attempts.try_into().map_err(|_| damaged("attempts"))?,
            id: row.item_id,
            cached: row.cached,
            result: ItemResult {
                scan_id: row.scan_id,
                result: row.result,
            },
            error: row.error_code.zip(row.error_detail),
            metadata: row.metadata,
        })
    }
}

// A chunk that is ready, with its batch.
record! {
    pub(super) struct ChunkRow {
        pub(super) batch_id: Uuid,
        pub(super) number: i32,
        pub(super) first_item: i64,
        pub(super) items: i32,
        pub(super) lease_owner: Option<String>,
        pub(super) lease_token: i64,
        pub(super) expired_leases: i32,
        pub(super) tenant: String,
        operation: String,
        options: JsonValue,
        priority: String,
        traceparent: Option<String>,
        key_id: Option<String>,
    }
}

impl ChunkRow {
    /// Returns the position after the last item.
    pub(super) fn end(&self) -> i64 {
        self.first_item + i64::from(self.items)
    }

    /// Converts the row of a chunk that was leased with these values.
    pub(super) fn leased(
        self,
        token: i64,
        expired_leases: i32,
        items: Vec<LeasedItem>,
    ) -> Result<LeasedChunk, StoreError> {
        let damaged = |_| StoreError::corrupt(format!("a chunk of batch {}", self.batch_id));
        Ok(LeasedChunk {
            lease: Lease {
                batch: self.batch_id,
                chunk: self.number.try_into().map_err(damaged)?,
                token: token.try_into().map_err(damaged)?,
            },
            tenant: self.tenant,
            operation: self.operation,
            options: self.options,
            priority: self.priority,
            traceparent: self.traceparent,
            key_id: self.key_id,
            expired_leases: expired_leases.try_into().map_err(damaged)?,
            items,
        })
    }
}

record! {
    pub(super) struct LeasedItemRow {
        position: i64,
        attempts: i32,
        payload: Option<Digest>,
        url: Option<String>,
        source: Option<String>,
        source_url: Option<String>,
    }
}

impl TryFrom<LeasedItemRow> for LeasedItem {
    type Error = StoreError;

    fn try_from(row: LeasedItemRow) -> Result<Self, StoreError> {
        let damaged = |_| StoreError::corrupt(format!("a number of item {}", row.position));
        Ok(Self {
            position: row.position.try_into().map_err(damaged)?,
            attempts: row.attempts.try_into().map_err(damaged)?,
            payload: row.payload.map(|payload| payload.0),
            url: row.url,
            source: row.source,
            source_url: row.source_url,
        })
    }
}

/// The lease of a chunk as values of its columns.
pub(super) struct LeaseKey {
    pub(super) batch_id: Uuid,
    pub(super) number: i32,
    pub(super) token: i64,
}

impl LeaseKey {
    /// Returns `None` if a number is out of range, so that no chunk can have this lease.
    pub(super) fn of(lease: &Lease) -> Option<Self> {
        Some(Self {
            batch_id: lease.batch,
            number: lease.chunk.try_into().ok()?,
            token: lease.token.try_into().ok()?,
        })
    }
}
