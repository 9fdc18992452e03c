//! Erasing items of batches.

use uuid::Uuid;

use super::counts;
use super::records::{ErasedCounts, ErasureTarget, ItemErasure, ItemToErase};
use crate::batches::finish_if_done;
use crate::call::{change, query};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::pages::before_page;
use crate::parameters::params;
use crate::record::record;
use crate::store::Store;
use crate::times::micros;
use crate::values::Many;

macro_rules! items {
    ($filter:literal) => {
        concat!(
            "SELECT position, payload, url, source_url, result FROM batch_items \
             WHERE batch_id = :batch AND position > :after AND (",
            $filter,
            ") ORDER BY position LIMIT :limit"
        )
    };
}

crate::prepared::statements! {
    const BATCHES =
        "SELECT id FROM batches WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit";

    const OF_IMAGE = items!(
        "payload IN (SELECT sha256 FROM images WHERE id = :image) \
         OR scan_id IN (SELECT id FROM scans WHERE image_id = :image)"
    );

    const OF_SOURCE = items!("source = :source");

    /// The caller compares the hosts, because SQL cannot read a URL.
    const WITH_URL = items!("url IS NOT NULL OR source_url IS NOT NULL");

    /// Locks the chunks of an item. An item that failed and was queued again can be in two.
    const LOCK_CHUNKS = "UPDATE batch_chunks SET lease_token = lease_token \
         WHERE batch_id = :batch AND first_item <= :position AND first_item + items > :position \
         RETURNING number, first_item, items, lease_owner";

    const END_LEASE = "UPDATE batch_chunks SET lease_owner = NULL, lease_token = lease_token + 1, \
         ready_at = :now, announced_at = NULL WHERE batch_id = :batch AND number = :number";

    const QUEUED = "SELECT count(*) AS count FROM batch_items \
         WHERE batch_id = :batch AND position >= :first_item AND position < :end AND state = 'queued'";

    const RETURN_ITEMS =
        "UPDATE batches SET running = running - :running, queued = queued + :running WHERE id = :batch";

    const CLEAR = "UPDATE batch_items SET item_id = NULL, payload = NULL, url = NULL, source = NULL, \
         source_url = NULL, metadata = NULL, result = NULL, error_code = 'erased', \
         error_detail = 'the image was erased' WHERE batch_id = :batch AND position IN (:positions)";

    const CANCEL = "UPDATE batch_items SET state = 'cancelled' \
         WHERE batch_id = :batch AND state = :state AND position IN (:positions)";

    const SHARED = "SELECT DISTINCT payload FROM batch_items \
         WHERE batch_id = :batch AND payload IN (:hashes) AND position NOT IN (:positions)";

    const COUNT = "UPDATE batches SET queued = queued - :queued, error = error - :errors, dead = dead - :dead, \
         cancelled = cancelled + :queued + :errors + :dead WHERE id = :batch";

    const DELETE_CHUNK = "DELETE FROM batch_chunks WHERE batch_id = :batch AND number = :number";

    const DELETE_WEBHOOKS = "DELETE FROM webhooks WHERE tenant = :tenant", scans "the erasure of a tenant";

    const DELETE_WEBHOOK_HOSTS = "DELETE FROM webhook_hosts WHERE tenant = :tenant", scans "the erasure of a tenant";

    const DELETE_WEBHOOK_TENANTS = "DELETE FROM webhook_tenants WHERE tenant = :tenant";
}

record! {
    struct LockedChunkRow {
        number: i32,
        first_item: u64,
        items: u64,
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
            let values = params!(tenant, after, limit);
            Ok(connection.fetch_all(BATCHES, values).await?)
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
            let after = before_page(after);
            let query = match target {
                ErasureTarget::Image(_) => OF_IMAGE,
                ErasureTarget::Source(_) => OF_SOURCE,
                ErasureTarget::Host(_) => WITH_URL,
                ErasureTarget::Face(_)
                | ErasureTarget::Batch(_)
                | ErasureTarget::Collection(_)
                | ErasureTarget::Subject(_)
                | ErasureTarget::Enrollment(_)
                | ErasureTarget::Person(_)
                | ErasureTarget::Tenant => return Ok(Vec::new()),
            };
            let (image, source) = (target.image(), target.source());
            let values = params!(batch, after, limit, image, source);
            Ok(connection.fetch_all(query, values).await?)
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
            let values = params!(batch, hashes = Many(hashes), positions = Many(positions));
            Ok(connection.fetch_all(SHARED, values).await?)
        })
    }

    /// Erases what items have, and cancels those that are not done.
    ///
    /// A worker that has their chunk loses its lease, so it saves no result of them.
    pub async fn erase_items(&self, erasure: ItemErasure<'_>) -> Result<(), StoreError> {
        change!(self, "erase_items", |connection| {
            let batch = erasure.batch;
            let positions = erasure.positions;
            if positions.is_empty() {
                return Ok(());
            }
            let chunks = end_leases(connection, &erasure).await?;
            let queued = cancel(connection, batch, "queued", positions).await?;
            let errors = cancel(connection, batch, "error", positions).await?;
            let dead = cancel(connection, batch, "dead", positions).await?;
            let values = params!(batch, positions = Many(positions));
            connection.execute(CLEAR, values).await?;
            connection
                .execute(COUNT, params!(batch, queued, errors, dead))
                .await?;
            for chunk in chunks {
                if chunk.queued(connection, batch).await? == 0 {
                    connection
                        .execute(DELETE_CHUNK, params!(batch, number = chunk.number))
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
                connection.execute(statement, params!(tenant)).await?;
            }
            Ok(())
        })
    }
}

/// Locks the chunks of the items and ends their leases, so that their items are queued.
async fn end_leases(
    connection: &mut Connection<'_>,
    erasure: &ItemErasure<'_>,
) -> Result<Vec<LockedChunkRow>, StoreError> {
    let batch = erasure.batch;
    let mut chunks: Vec<LockedChunkRow> = Vec::new();
    for position in erasure.positions {
        if chunks.iter().any(|chunk| chunk.has(*position)) {
            continue;
        }
        let locked: Vec<LockedChunkRow> = connection
            .fetch_all(LOCK_CHUNKS, params!(batch, position = *position))
            .await?;
        chunks.extend(locked);
    }
    for chunk in chunks.iter().filter(|chunk| chunk.lease_owner.is_some()) {
        let running = chunk.queued(connection, batch).await?;
        let values = params!(batch, number = chunk.number, now = micros(erasure.now));
        connection.execute(END_LEASE, values).await?;
        connection
            .execute(RETURN_ITEMS, params!(batch, running))
            .await?;
    }
    Ok(chunks)
}

impl LockedChunkRow {
    fn end(&self) -> u64 {
        self.first_item + self.items
    }

    fn has(&self, position: u64) -> bool {
        (self.first_item..self.end()).contains(&position)
    }

    /// Returns the number of its items that are not finished.
    async fn queued(
        &self,
        connection: &mut Connection<'_>,
        batch: Uuid,
    ) -> Result<i64, StoreError> {
        let values = params!(batch, first_item = self.first_item, end = self.end());
        Ok(connection.fetch_one(QUEUED, values).await?)
    }
}

/// Cancels the items in a state. Returns their number.
async fn cancel(
    connection: &mut Connection<'_>,
    batch: Uuid,
    state: &'static str,
    positions: &[u64],
) -> Result<u64, StoreError> {
    let values = params!(batch, state, positions = Many(positions));
    Ok(connection.execute(CANCEL, values).await?)
}
