//! Reading batches and items.

use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{Batch, BatchFilter, ItemFilter, ItemList, ItemPage, ItemState, QueueDepth};
use super::rows::batch_columns;
use crate::call::{query, snapshot};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::pages::{PageRequest, before_page};
use crate::parameters::params;
use crate::sizes::{count_within, scan_size, tree_size};
use crate::store::Store;
use crate::times::micros;
use crate::values::Many;

/// SQL for the items of a batch, each with what `$columns` names. A queued item is running while a worker has its chunk.
macro_rules! items {
    ($columns:literal) => {
        concat!(
            "(SELECT ",
            $columns,
            ", CASE WHEN i.state = 'queued' AND EXISTS (SELECT 1 FROM batch_chunks c \
                      WHERE c.batch_id = i.batch_id AND c.lease_owner IS NOT NULL \
                      AND i.position >= c.first_item AND i.position < c.first_item + c.items) \
                  THEN 'running' ELSE i.state END AS state \
             FROM batch_items i WHERE i.batch_id = :batch AND i.position > :after) i \
             WHERE (state = :state OR :state IS NULL)"
        )
    };
}

crate::prepared::statements! {
    const BATCH = concat!(
        "SELECT ",
        batch_columns!(),
        " FROM batches b WHERE tenant = :tenant AND id = :batch AND deletion IS NULL"
    );

    pub(super) const BATCH_BY_ID = concat!(
        "SELECT ",
        batch_columns!(),
        " FROM batches b WHERE id = :batch AND deletion IS NULL"
    );

    pub(super) const BATCH_BY_KEY = concat!(
        "SELECT ",
        batch_columns!(),
        " FROM batches b WHERE tenant = :tenant AND idempotency_key = :key AND deletion IS NULL"
    );

    /// Without the receipts, which can have hundreds of refused entries each.
    const BATCHES = concat!(
        "SELECT * FROM (SELECT ",
        batch_columns!("NULL"),
        " FROM batches b WHERE tenant = :tenant AND deletion IS NULL) b WHERE (state = :state OR :state IS NULL) \
         AND (name = :name OR :name IS NULL) AND id < :before ORDER BY id DESC LIMIT :limit"
    );

    const ITEMS = concat!(
        "SELECT * FROM ",
        items!(
            "i.position, i.item_id, i.metadata, i.attempts, i.cached, i.scan_id, i.result, \
             i.error_code, i.error_detail"
        ),
        " AND position <= :last ORDER BY position"
    );

    /// The inner query chooses the items first, so that no other item is measured.
    const ITEM_SIZES = concat!(
        "SELECT m.position, CAST(512 + coalesce(octet_length(CAST(m.metadata AS text)), 0) \
             + coalesce(octet_length(m.error_detail), 0) + ",
        tree_size!("m.result"),
        " + ",
        scan_size!("m.scan_id"),
        " AS bigint) AS bytes FROM batch_items m WHERE m.batch_id = :batch AND m.position IN \
             (SELECT position FROM ",
        items!("i.position"),
        " ORDER BY position LIMIT :limit) ORDER BY m.position"
    );

    const QUEUE_DEPTH = "SELECT CAST(coalesce(sum(queued), 0) AS bigint) AS queued, \
         CAST(coalesce(sum(running), 0) AS bigint) AS running, \
         (SELECT min(ready_at) FROM batch_chunks WHERE ready_at <= :now) AS oldest \
         FROM batches WHERE finished_at IS NULL AND cancelled_at IS NULL AND deletion IS NULL";

    const WAITING = "SELECT CAST(coalesce(sum(queued + running), 0) AS bigint) AS count FROM batches \
         WHERE tenant = :tenant AND finished_at IS NULL AND cancelled_at IS NULL AND deletion IS NULL", scans "the unfinished batches of one tenant";

    const ACTIVE = "SELECT id FROM batches \
         WHERE id IN (:batches) AND cancelled_at IS NULL AND deletion IS NULL";

    const RESULT = "SELECT result FROM batch_items \
         WHERE batch_id = :batch AND payload = :payload AND state = 'ok' AND result IS NOT NULL LIMIT 1";
}

pub(super) async fn find_batch(
    connection: &mut Connection<'_>,
    tenant: &str,
    batch: Uuid,
) -> Result<Option<Batch>, StoreError> {
    let values = params!(tenant, batch);
    Ok(connection.fetch_optional(BATCH, values).await?)
}

impl Store {
    /// Returns a batch.
    pub async fn batch(&self, tenant: &str, batch: Uuid) -> Result<Option<Batch>, StoreError> {
        query!(self, "batch", |connection| {
            find_batch(connection, tenant, batch).await
        })
    }

    /// Returns one page of the tenant's batches, newest first.
    pub async fn list_batches(
        &self,
        tenant: &str,
        filter: &BatchFilter,
        page: PageRequest,
    ) -> Result<Vec<Batch>, StoreError> {
        query!(self, "list_batches", |connection| {
            let state = filter.state.map(|state| state.name().to_owned());
            // The highest id of all comes after the id of every batch.
            let (before, limit) = (page.after.unwrap_or(Uuid::max()), page.limit);
            let values = params!(tenant, state, name = filter.name, before, limit);
            Ok(connection.fetch_all(BATCHES, values).await?)
        })
    }

    /// Returns one page of the items of a batch, in order. The rest of the items is measured by the database and not loaded.
    pub async fn list_items(
        &self,
        batch: Uuid,
        filter: ItemFilter,
        page: ItemPage,
    ) -> Result<ItemList, StoreError> {
        snapshot!(self, "list_items", |connection| {
            let after = before_page(page.after);
            let state = filter.state.map(|state: ItemState| state.name().to_owned());
            // One more item than requested shows whether there is a next page.
            let limit = i64::from(page.limit) + 1;
            let values = params!(batch, after, state, limit);
            let sizes: Vec<(i64, i64)> = connection.fetch_all(ITEM_SIZES, values).await?;
            let requested = sizes.iter().take(page.limit as usize);
            let count = count_within(page.max_bytes, requested.map(|(_, bytes)| *bytes));
            let Some(last) = count.checked_sub(1).map(|last| sizes[last].0) else {
                return Ok(ItemList::default());
            };
            let values = params!(batch, after, state, last);
            Ok(ItemList {
                items: connection.fetch_all(ITEMS, values).await?,
                has_more: count < sizes.len(),
            })
        })
    }

    /// Returns the result of another item of the batch with this payload. Only items of an operation without scans have one.
    pub async fn result_of_payload(
        &self,
        batch: Uuid,
        payload: [u8; 32],
    ) -> Result<Option<serde_json::Value>, StoreError> {
        query!(self, "result_of_payload", |connection| {
            let values = params!(batch, payload);
            Ok(connection.fetch_optional(RESULT, values).await?)
        })
    }

    /// Returns those of some batches that are neither cancelled nor deleted.
    pub async fn active_batches(&self, batches: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
        query!(self, "active_batches", |connection| {
            if batches.is_empty() {
                return Ok(Vec::new());
            }
            let batches = params!(batches = Many(batches));
            Ok(connection.fetch_all(ACTIVE, batches).await?)
        })
    }

    /// Returns the number of a tenant's items that are not finished.
    pub async fn waiting_items(&self, tenant: &str) -> Result<u64, StoreError> {
        query!(self, "waiting_items", |connection| {
            Ok(connection.fetch_one(WAITING, params!(tenant)).await?)
        })
    }

    /// Returns the number of waiting items and the age of the oldest ready chunk.
    pub async fn queue_depth(&self, now: OffsetDateTime) -> Result<QueueDepth, StoreError> {
        query!(self, "queue_depth", |connection| {
            let now = params!(now = micros(now));
            Ok(connection.fetch_one(QUEUE_DEPTH, now).await?)
        })
    }
}
