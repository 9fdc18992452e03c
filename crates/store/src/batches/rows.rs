//! How batches, items and chunks are read from rows, and items written to them.

use uuid::Uuid;

use super::records::{Item, ItemResult, NewItem};
use crate::record::{Columns, Record};
use crate::values::Value;

/// The columns of a batch, with another receipt if one is given. The state follows from the others.
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

/// The columns of [`new_item_values`].
pub(super) const INTO_ITEMS: &str = "batch_items (batch_id, position, item_id, \
     payload, url, source, source_url, metadata, state, attempts, cached)";

/// Returns the values of an item to be inserted. Those of the last columns are the same in every row.
pub(super) fn new_item_values<'a>(
    batch_id: &'a Uuid,
    position: &'a i64,
    item: &'a NewItem,
) -> [&'a dyn Value; 11] {
    [
        batch_id,
        position,
        &item.id,
        &item.payload,
        &item.url,
        &item.source,
        &item.source_url,
        &item.metadata,
        &"queued",
        &0_i32,
        &false,
    ]
}

impl Record for Item {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let code: Option<String> = row.get("error_code")?;
        Ok(Self {
            position: row.number("position")?,
            id: row.get("item_id")?,
            state: row.named("state")?,
            attempts: row.number("attempts")?,
            cached: row.get("cached")?,
            result: ItemResult {
                scan_id: row.get("scan_id")?,
                result: row.get("result")?,
            },
            error: code.zip(row.get("error_detail")?),
            metadata: row.get("metadata")?,
        })
    }
}
