//! Erasing items of batches.

use sqlx::AssertSqlSafe;
use sqlx::types::JsonValue;
use uuid::Uuid;

use super::counts;
use super::records::{ErasedCounts, ErasureTarget, ItemErasure, ItemToErase};
use crate::batches::finish_if_done;
use crate::call::{change, query};
use crate::connection::{Connection, placeholders};
use crate::error::StoreError;
use crate::record::record;
use crate::rows::{CountRow, IdRow, PayloadRow};
use crate::store::Store;
use crate::times::micros;
use crate::values::{Digest, Value};

const BATCHES: &str = "SELECT id FROM batches WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";

macro_rules! items {
    ($filter:literal) => {
        concat!(
            "SELECT position, payload, url, source_url, result FROM batch_items \
             WHERE batch_id = $1 AND position > $2 AND (",
            $filter,
            ") ORDER BY position LIMIT $3"
        )
    };
}

const OF_IMAGE: &str = items!(
    "payload IN (SELECT sha256 FROM images WHERE id = $4) \
     OR scan_id IN (SELECT id FROM scans WHERE image_id = $4)"
);

const OF_SOURCE: &str = items!("source = $4");

/// The caller compares the hosts, because SQL cannot read a URL.
const WITH_URL: &str = items!("url IS NOT NULL OR source_url IS NOT NULL");

/// Locks the chunks of an item. An item that failed and was queued again can be in two.
const LOCK_CHUNKS: &str = "UPDATE batch_chunks SET lease_token = lease_token \
     WHERE batch_id = $1 AND first_item <= $2 AND first_item + items > $2 \
     RETURNING number, first_item, items, lease_owner";

const END_LEASE: &str = "UPDATE batch_chunks SET lease_owner = NULL, lease_token = lease_token + 1, \
     ready_at = $3, announced_at = NULL WHERE batch_id = $1 AND number = $2";

const QUEUED: &str = "SELECT count(*) AS count FROM batch_items \
     WHERE batch_id = $1 AND position >= $2 AND position < $3 AND state = 'queued'";

const RETURN_ITEMS: &str =
    "UPDATE batches SET running = running - $2, queued = queued + $2 WHERE id = $1";

const CLEAR: &str = "UPDATE batch_items SET item_id = NULL, payload = NULL, url = NULL, source = NULL, \
     source_url = NULL, metadata = NULL, result = NULL, error_code = 'erased', \
     error_detail = 'the image was erased' WHERE batch_id = $1 AND position IN ";

const COUNT: &str = "UPDATE batches SET queued = queued - $2, error = error - $3, dead = dead - $4, \
     cancelled = cancelled + $2 + $3 + $4 WHERE id = $1";

const DELETE_CHUNK: &str = "DELETE FROM batch_chunks WHERE batch_id = $1 AND number = $2";

const DELETE_WEBHOOKS: &str = "DELETE FROM webhooks WHERE tenant = $1";

const DELETE_WEBHOOK_HOSTS: &str = "DELETE FROM webhook_hosts WHERE tenant = $1";

const DELETE_WEBHOOK_TENANTS: &str = "DELETE FROM webhook_tenants WHERE tenant = $1";

record! {
    struct ItemToEraseRow {
        position: i64,
        payload: Option<Digest>,
        url: Option<String>,
        source_url: Option<String>,
        result: Option<JsonValue>,
    }
}

record! {
    struct LockedChunkRow {
        number: i32,
        first_item: i64,
        items: i32,
        lease_owner: Option<String>,
    }
}

impl Store {
    /// Returns the batches of a tenant after the batch `after`, in order, with those that are being deleted.
    pub async fn batches_of_tenant(
        &self,
        tenant: &str,
        after: Uuid,
        limit: u32,
    ) -> Result<Vec<Uuid>, StoreError> {
        query!(self, "batches_of_tenant", |connection| {
            let values: [&dyn Value; 3] = [&tenant, &after, &i64::from(limit)];
            let rows: Vec<IdRow> = connection.fetch_all(BATCHES, &values).await?;
            Ok(rows.into_iter().map(|row| row.id).collect())
        })
    }

    /// Returns items of a batch that a target may include, after the position `after`, in order.
    pub async fn items_to_erase(
        &self,
        batch: Uuid,
        target: &ErasureTarget,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ItemToErase>, StoreError> {
        query!(self, "items_to_erase", no_limit, |connection| {
            let (after, limit) = (after.map_or(-1, row_position), i64::from(limit));
            let mut values: Vec<&dyn Value> = vec![&batch, &after, &limit];
            let query = match target {
                ErasureTarget::Image(id) => {
                    values.push(id);
                    OF_IMAGE
                }
                ErasureTarget::Source(source) => {
                    values.push(source);
                    OF_SOURCE
                }
                ErasureTarget::Host(_) => WITH_URL,
                ErasureTarget::Face(_)
                | ErasureTarget::Batch(_)
                | ErasureTarget::Collection(_)
                | ErasureTarget::Subject(_)
                | ErasureTarget::Enrolment(_)
                | ErasureTarget::Person(_)
                | ErasureTarget::Tenant => return Ok(Vec::new()),
            };
            let rows: Vec<ItemToEraseRow> = connection.fetch_all(query, &values).await?;
            Ok(rows
                .into_iter()
                .map(|row| ItemToErase {
                    position: row.position.try_into().unwrap_or(0),
                    payload: row.payload.map(|hash| hash.0),
                    url: row.url,
                    source_url: row.source_url,
                    result: row.result,
                })
                .collect())
        })
    }

    /// Returns the payloads among `hashes` that an item of the batch at another position has.
    pub async fn shared_payloads(
        &self,
        batch: Uuid,
        positions: &[u64],
        hashes: &[[u8; 32]],
    ) -> Result<Vec<[u8; 32]>, StoreError> {
        query!(self, "shared_payloads", |connection| {
            if hashes.is_empty() {
                return Ok(Vec::new());
            }
            let positions: Vec<i64> = positions.iter().copied().map(row_position).collect();
            let hashes: Vec<Digest> = hashes.iter().copied().map(Digest).collect();
            let mut values: Vec<&dyn Value> = vec![&batch];
            values.extend(hashes.iter().map(|hash| hash as &dyn Value));
            values.extend(positions.iter().map(|position| position as &dyn Value));
            let query = format!(
                "SELECT DISTINCT payload FROM batch_items WHERE batch_id = $1 AND payload IN {} \
                 AND position NOT IN {}",
                placeholders(2, 1, hashes.len()),
                placeholders(2 + hashes.len(), 1, positions.len())
            );
            let rows: Vec<PayloadRow> = connection.fetch_all(AssertSqlSafe(query), &values).await?;
            Ok(rows.into_iter().map(|row| row.payload.0).collect())
        })
    }

    /// Erases what items have, and cancels those that are not done.
    ///
    /// A worker that has their chunk loses its lease, so it saves no result of them.
    pub async fn erase_items(&self, erasure: ItemErasure<'_>) -> Result<(), StoreError> {
        change!(self, "erase_items", |connection| {
            let batch = erasure.batch;
            let positions: Vec<i64> = erasure
                .positions
                .iter()
                .copied()
                .map(row_position)
                .collect();
            if positions.is_empty() {
                return Ok(());
            }
            let chunks = end_leases(connection, &erasure, &positions).await?;
            let list = Positions::new(&batch, &positions);
            let queued = list.cancel(connection, "queued").await?;
            let errors = list.cancel(connection, "error").await?;
            let dead = list.cancel(connection, "dead").await?;
            list.execute(connection, CLEAR.to_owned()).await?;
            connection
                .execute(COUNT, &[&batch, &queued, &errors, &dead])
                .await?;
            for chunk in chunks {
                if chunk.queued(connection, batch).await? == 0 {
                    connection
                        .execute(DELETE_CHUNK, &[&batch, &chunk.number])
                        .await?;
                }
            }
            finish_if_done(connection, batch, erasure.now).await?;
            let counts = ErasedCounts {
                items: positions.len() as u64,
                payloads: erasure.payloads,
                ..ErasedCounts::default()
            };
            counts::add(connection, erasure.erasure, counts).await
        })
    }

    /// Deletes the webhooks of a tenant.
    pub async fn erase_webhooks(&self, tenant: &str) -> Result<(), StoreError> {
        change!(self, "erase_webhooks", |connection| {
            for statement in [
                DELETE_WEBHOOKS,
                DELETE_WEBHOOK_HOSTS,
                DELETE_WEBHOOK_TENANTS,
            ] {
                connection.execute(statement, &[&tenant]).await?;
            }
            Ok(())
        })
    }
}

fn row_position(position: u64) -> i64 {
    position.try_into().unwrap_or(i64::MAX)
}

/// Locks the chunks of the items and ends their leases, so that their items are queued.
async fn end_leases(
    connection: &mut Connection<'_>,
    erasure: &ItemErasure<'_>,
    positions: &[i64],
) -> Result<Vec<LockedChunkRow>, StoreError> {
    let batch = erasure.batch;
    let mut chunks: Vec<LockedChunkRow> = Vec::new();
    for position in positions {
        if chunks.iter().any(|chunk| chunk.has(*position)) {
            continue;
        }
        let locked: Vec<LockedChunkRow> = connection
            .fetch_all(LOCK_CHUNKS, &[&batch, position])
            .await?;
        chunks.extend(locked);
    }
    for chunk in chunks.iter().filter(|chunk| chunk.lease_owner.is_some()) {
        let running = chunk.queued(connection, batch).await?;
        let values: [&dyn Value; 3] = [&batch, &chunk.number, &micros(erasure.now)];
        connection.execute(END_LEASE, &values).await?;
        connection
            .execute(RETURN_ITEMS, &[&batch, &running])
            .await?;
    }
    Ok(chunks)
}

impl LockedChunkRow {
    fn end(&self) -> i64 {
        self.first_item + i64::from(self.items)
    }

    fn has(&self, position: i64) -> bool {
        (self.first_item..self.end()).contains(&position)
    }

    /// Returns the number of its items that are not finished.
    async fn queued(
        &self,
        connection: &mut Connection<'_>,
        batch: Uuid,
    ) -> Result<i64, StoreError> {
        let values: [&dyn Value; 3] = [&batch, &self.first_item, &self.end()];
        let row: Option<CountRow> = connection.fetch_optional(QUEUED, &values).await?;
        Ok(row.map_or(0, |row| row.count))
    }
}

/// The positions of items as parameters of a statement.
struct Positions<'a> {
    values: Vec<&'a dyn Value>,
    list: String,
}

impl<'a> Positions<'a> {
    fn new(batch: &'a Uuid, positions: &'a [i64]) -> Self {
        let mut values: Vec<&dyn Value> = vec![batch];
        values.extend(positions.iter().map(|position| position as &dyn Value));
        Self {
            list: placeholders(2, 1, positions.len()),
            values,
        }
    }

    /// Runs a statement that ends before the list.
    async fn execute(
        &self,
        connection: &mut Connection<'_>,
        statement: String,
    ) -> Result<u64, StoreError> {
        let statement = statement + &self.list;
        Ok(connection
            .execute(AssertSqlSafe(statement), &self.values)
            .await?)
    }

    /// Cancels the items in a state. Returns their number.
    async fn cancel(
        &self,
        connection: &mut Connection<'_>,
        state: &'static str,
    ) -> Result<i64, StoreError> {
        let statement = format!(
            "UPDATE batch_items SET state = 'cancelled' \
             WHERE batch_id = $1 AND state = '{state}' AND position IN "
        );
        let changed = self.execute(connection, statement).await?;
        Ok(changed.try_into().unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
crate::prepared::statements!(
    BATCHES, OF_IMAGE, OF_SOURCE, WITH_URL, LOCK_CHUNKS, END_LEASE, QUEUED, RETURN_ITEMS, COUNT,
    DELETE_CHUNK, DELETE_WEBHOOKS, DELETE_WEBHOOK_HOSTS, DELETE_WEBHOOK_TENANTS;
    parts: CLEAR
);
