//! Creating batches and adding items.

use std::collections::HashSet;

use time::OffsetDateTime;
use uuid::Uuid;

use super::read;
use super::records::{
    AddedItems, Batch, CompleteRequest, CreatedBatch, NewBatch, NewItem, NewItems,
};
use super::rows::{INTO_ITEMS, new_item_values};
use crate::call::change;
use crate::connection::{Connection, insert_rows, pieces};
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::record;
use crate::store::Store;
use crate::times::{micros, to_the_microsecond};
use crate::values::{Rows, Value};
use crate::webhooks::{WebhookEvent, add_to_batch, insert_deliveries, lock_for_batch};

crate::prepared::statements! {
    const INSERT_BATCH = "INSERT INTO batches (id, tenant, name, operation, options, models, \
         models_key, priority, idempotency_key, chunk_size, submitted, is_open, accepted, queued, \
         running, ok, cached, error, dead, cancelled, next_chunk, served, created_at, expires_at, payloads_due, traceparent, key_id) \
         VALUES (:id, :tenant, :name, :operation, :options, :models, :models_key, :priority, :idempotency_key, :chunk_size, 0, :is_open, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, :created_at, :expires_at, :payloads_due, :traceparent, :key_id) \
         ON CONFLICT (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING";

    /// Locks the batch until the transaction ends, so that its positions and chunks are given out once.
    const LOCK_BATCH = "UPDATE batches SET submitted = submitted WHERE id = :batch AND is_open \
         AND cancelled_at IS NULL AND (submitted = :read_before OR :read_before IS NULL) RETURNING tenant, accepted, next_chunk, chunk_size";

    const ADD_TO_COUNTS = "UPDATE batches SET submitted = submitted + :read, \
         accepted = accepted + :accepted, queued = queued + :accepted, next_chunk = :next_chunk, finished_at = NULL \
         WHERE id = :batch";

    /// Gives a tenant a place in the fair queue. Run it before the counts of its batch change.
    ///
    /// A tenant that comes back does not get the turns that it did not use: it begins at the turn of the others.
    pub(super) const JOIN_FAIR_QUEUE = "INSERT INTO batch_tenants (tenant, served) \
         VALUES (:tenant, coalesce((SELECT min(served) FROM batch_tenants t WHERE EXISTS \
             (SELECT 1 FROM batches b WHERE b.tenant = t.tenant AND b.queued > 0 \
             AND b.finished_at IS NULL AND b.cancelled_at IS NULL)), 0)) \
         ON CONFLICT (tenant) DO UPDATE SET served = excluded.served \
         WHERE batch_tenants.served < excluded.served AND NOT EXISTS \
             (SELECT 1 FROM batches b WHERE b.tenant = excluded.tenant AND b.queued > 0 \
             AND b.finished_at IS NULL AND b.cancelled_at IS NULL)", scans "the unfinished batches of one tenant";

    const COMPLETE = "UPDATE batches SET request_digest = :digest, receipt = :receipt, is_open = :stays_open \
         WHERE id = :batch AND request_digest IS NULL";

    const CLOSE = "UPDATE batches SET is_open = :is_open WHERE tenant = :tenant AND id = :batch AND deletion IS NULL";

    const FINISH = "UPDATE batches SET finished_at = :now, payloads_due = :payloads_due WHERE id = :batch AND NOT is_open \
         AND queued + running = 0 AND finished_at IS NULL AND cancelled_at IS NULL";

    /// A subquery for each id always uses the index of ids. Postgres may read the whole batch for a list of ids.
    const KNOWN_IDS = "WITH sent (id) AS (VALUES :rows) SELECT (SELECT i.item_id FROM batch_items i \
         WHERE i.batch_id = :batch AND i.item_id = sent.id) AS item_id FROM sent",
        rows "text";
}

record! {
    struct LockedBatch {
        tenant: String,
        accepted: i64,
        next_chunk: i32,
        chunk_size: i32,
    }
}

impl Store {
    /// Creates a batch without items.
    ///
    /// If the tenant has a batch with this idempotency key, the call returns that one and writes nothing. The webhook of the
    /// batch and its audit entry are written with it.
    pub async fn create_batch(&self, batch: &NewBatch) -> Result<CreatedBatch, StoreError> {
        change!(self, "create_batch", |connection| {
            let by_key = params!(tenant = batch.tenant, key = batch.idempotency_key);
            if let Some(own) = &batch.webhook
                && !lock_for_batch(connection, own).await?
            {
                // A repeated request needs no further webhook.
                let existing = connection
                    .fetch_optional(read::BATCH_BY_KEY, by_key)
                    .await?;
                return Ok(existing.map_or(CreatedBatch::TooManyWebhooks, CreatedBatch::Existing));
            }
            let inserted = connection
                .execute(
                    INSERT_BATCH,
                    params!(
                        id = batch.id,
                        tenant = batch.tenant,
                        name = batch.name,
                        operation = batch.operation,
                        options = batch.options,
                        models = batch.models,
                        models_key = batch.models_key,
                        priority = batch.priority,
                        idempotency_key = batch.idempotency_key,
                        chunk_size = batch.chunk_size.clamp(1, i32::MAX.cast_unsigned()),
                        is_open = true,
                        created_at = to_the_microsecond(batch.created_at),
                        expires_at = batch.expires_at.map(micros),
                        payloads_due = false,
                        traceparent = batch.traceparent,
                        key_id = batch.key_id
                    ),
                )
                .await?;
            if inserted == 1 {
                if let Some(own) = &batch.webhook {
                    add_to_batch(connection, own).await?;
                }
                let created = read::find_batch(connection, &batch.tenant, batch.id).await?;
                let created =
                    created.ok_or_else(|| StoreError::corrupt("a new batch".to_owned()))?;
                return Ok(CreatedBatch::New(created));
            }
            let existing = connection
                .fetch_optional(read::BATCH_BY_KEY, by_key)
                .await?;
            let existing =
                existing.ok_or_else(|| StoreError::corrupt("an existing batch".to_owned()))?;
            Ok(CreatedBatch::Existing(existing))
        })
    }

    /// Adds items to a batch that is open, and makes chunks of them. Returns `None` if there is no such batch, if it is not
    /// open, or if another request adds entries too.
    ///
    /// An item whose id the batch already has is not added.
    pub async fn add_items(&self, new: NewItems<'_>) -> Result<Option<AddedItems>, StoreError> {
        change!(self, "add_items", bulk, |connection| {
            let NewItems {
                batch,
                items,
                read,
                read_before,
                now,
            } = new;
            let Some(locked) = connection
                .fetch_optional::<LockedBatch>(LOCK_BATCH, params!(batch, read_before))
                .await?
            else {
                return Ok(None);
            };
            let known = known_ids(connection, batch, items).await?;
            let kept = without_duplicates(items, known);
            let placed: Vec<_> = (locked.accepted..).zip(&kept).collect();
            let rows: Vec<_> = placed
                .iter()
                .map(|(position, item)| new_item_values(&batch, position, item))
                .collect();
            insert_rows(connection, INTO_ITEMS, &rows).await?;
            let size = i64::from(locked.chunk_size);
            let end = locked.accepted + kept.len() as i64;
            let starts = (locked.accepted..end).step_by(size as usize);
            let chunks: Vec<_> = (locked.next_chunk..)
                .zip(starts)
                .map(|(number, first)| (number, first, (end - first).min(size) as i32))
                .collect();
            insert_chunks(connection, &batch, &chunks, micros(now)).await?;
            if !chunks.is_empty() {
                let tenant = params!(tenant = locked.tenant);
                connection.execute(JOIN_FAIR_QUEUE, tenant).await?;
            }
            let accepted = kept.len() as i64;
            let next_chunk = locked.next_chunk + chunks.len() as i32;
            connection
                .execute(ADD_TO_COUNTS, params!(batch, read, accepted, next_chunk))
                .await?;
            Ok(Some(AddedItems {
                accepted: kept.len() as u64,
                duplicates: (items.len() - kept.len()) as u64,
            }))
        })
    }

    /// Records that the whole request has arrived. Closes the batch unless it stays open.
    pub async fn complete_request(
        &self,
        request: CompleteRequest,
    ) -> Result<Option<Batch>, StoreError> {
        change!(self, "complete_request", |connection| {
            let values = params!(
                batch = request.batch,
                digest = request.digest,
                receipt = request.receipt,
                stays_open = request.stays_open
            );
            connection.execute(COMPLETE, values).await?;
            finish_if_done(connection, request.batch, request.now).await?;
            let values = params!(batch = request.batch);
            Ok(connection.fetch_optional(read::BATCH_BY_ID, values).await?)
        })
    }

    /// Closes an open batch. It accepts no more items. Returns `None` if the tenant has no such batch.
    pub async fn close_batch(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<Batch>, StoreError> {
        change!(self, "close_batch", |connection| {
            let found = connection
                .execute(CLOSE, params!(tenant, batch, is_open = false))
                .await?;
            if found == 1 {
                finish_if_done(connection, batch, now).await?;
            }
            read::find_batch(connection, tenant, batch).await
        })
    }
}

/// Inserts chunks that are ready at `ready_at`. Each has a number, a first item and a number of items.
pub(super) async fn insert_chunks(
    connection: &mut Connection<'_>,
    batch: &Uuid,
    chunks: &[(i32, i64, i32)],
    ready_at: i64,
) -> Result<(), StoreError> {
    let rows: Vec<[&dyn Value; 7]> = chunks
        .iter()
        .map(|(number, first, items)| -> [&dyn Value; 7] {
            [batch, number, first, items, &ready_at, &0_i64, &0_i32]
        })
        .collect();
    let into = "batch_chunks (batch_id, number, first_item, items, ready_at, \
         lease_token, expired_leases)";
    Ok(insert_rows(connection, into, &rows).await?)
}

/// Returns the ids of `items` that the batch has.
async fn known_ids(
    connection: &mut Connection<'_>,
    batch: Uuid,
    items: &[NewItem],
) -> Result<HashSet<String>, StoreError> {
    let mut known = HashSet::new();
    let ids = items.iter().filter_map(|item| item.id.as_ref());
    let ids: Vec<[&dyn Value; 1]> = ids.map(|id| [id as &dyn Value]).collect();
    for ids in pieces(&ids) {
        let found: Vec<Option<String>> = connection
            .fetch_all(KNOWN_IDS, params!(batch, rows = Rows(ids)))
            .await?;
        known.extend(found.into_iter().flatten());
    }
    Ok(known)
}

/// Returns the items whose id is not known and does not stand before them.
fn without_duplicates(items: &[NewItem], mut known: HashSet<String>) -> Vec<&NewItem> {
    let is_new = |item: &&NewItem| match &item.id {
        Some(id) => known.insert(id.clone()),
        None => true,
    };
    items.iter().filter(is_new).collect()
}

/// Ends a batch that accepts no more items and whose items are all finished. Returns whether it did.
pub(crate) async fn finish_if_done(
    connection: &mut Connection<'_>,
    batch: Uuid,
    now: OffsetDateTime,
) -> Result<bool, StoreError> {
    let changed = connection
        .execute(
            FINISH,
            params!(batch, now = to_the_microsecond(now), payloads_due = true),
        )
        .await?;
    if changed == 1 {
        insert_deliveries(connection, batch, WebhookEvent::BatchDone, now).await?;
    }
    Ok(changed == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: Option<&str>) -> NewItem {
        NewItem {
            id: id.map(str::to_owned),
            ..NewItem::default()
        }
    }

    #[test]
    fn an_id_is_taken_once_and_items_without_one_always() {
        let items = [Some("a"), None, Some("b"), Some("a"), None, Some("c")].map(item);
        let known = HashSet::from(["b".to_owned()]);
        let kept = without_duplicates(&items, known);
        let ids: Vec<_> = kept.iter().map(|item| item.id.as_deref()).collect();
        assert_eq!(ids, [Some("a"), None, None, Some("c")]);
    }
}
