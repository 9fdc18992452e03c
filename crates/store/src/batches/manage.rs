//! Cancelling and retrying batches.

use time::OffsetDateTime;
use uuid::Uuid;

use super::records::CancelledBatch;
use super::submit::insert_chunks;
use super::{read, submit};
use crate::call::change;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::{micros, to_the_microsecond};
use crate::webhooks::{WebhookEvent, insert_deliveries};

crate::prepared::statements! {
    /// Locks the batch until the transaction ends.
    const LOCK_BATCH = "UPDATE batches SET submitted = submitted \
         WHERE tenant = :tenant AND id = :batch AND deletion IS NULL RETURNING next_chunk, chunk_size";

    /// Locks the chunks of a tenant's batch. Workers lock a chunk before its batch, so whoever deletes chunks does it, too: in
    /// another order, the two could wait for each other.
    pub(super) const LOCK_CHUNKS = "UPDATE batch_chunks SET lease_token = lease_token \
         WHERE batch_id = :batch AND EXISTS (SELECT 1 FROM batches b WHERE b.id = :batch AND b.tenant = :tenant)";

    const CANCEL = "UPDATE batches SET cancelled_at = :cancelled_at, is_open = :is_open, payloads_due = :payloads_due \
         WHERE id = :batch AND cancelled_at IS NULL AND finished_at IS NULL";

    /// Ends the items of chunks that no worker has.
    const CANCEL_ITEMS = "UPDATE batch_items SET state = 'cancelled' \
         WHERE batch_id = :batch AND state = 'queued' AND NOT EXISTS (SELECT 1 FROM batch_chunks c \
             WHERE c.batch_id = :batch AND c.lease_owner IS NOT NULL \
             AND batch_items.position >= c.first_item \
             AND batch_items.position < c.first_item + c.items)";

    const DELETE_WAITING_CHUNKS =
        "DELETE FROM batch_chunks WHERE batch_id = :batch AND lease_owner IS NULL";

    const COUNT_CANCELLED =
        "UPDATE batches SET queued = queued - :count, cancelled = cancelled + :count WHERE id = :batch";

    /// An item of a chunk that still exists is queued with that chunk.
    const FAILED_ITEMS = "SELECT position FROM batch_items i \
         WHERE batch_id = :batch AND state IN ('error', 'dead') AND NOT EXISTS \
             (SELECT 1 FROM batch_chunks c WHERE c.batch_id = :batch \
              AND i.position >= c.first_item AND i.position < c.first_item + c.items) \
         ORDER BY position";

    const REQUEUE_ITEMS = "UPDATE batch_items SET state = 'queued', attempts = 0, \
         error_code = NULL, error_detail = NULL \
         WHERE batch_id = :batch AND position >= :first AND position < :end AND state = :state";

    const COUNT_REQUEUED = "UPDATE batches SET queued = queued + :errors + :dead, error = error - :errors, \
         dead = dead - :dead, next_chunk = :next_chunk, finished_at = NULL WHERE id = :batch";
}

impl Store {
    /// Cancels a batch. A chunk that a worker has ends when the worker returns it, or with its lease. Returns `None` if the tenant has no such batch.
    pub async fn cancel_batch(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<CancelledBatch>, StoreError> {
        change!(self, "cancel_batch", no_limit, |connection| {
            connection
                .execute(LOCK_CHUNKS, params!(tenant, batch))
                .await?;
            if !connection
                .exists(LOCK_BATCH, params!(tenant, batch))
                .await?
            {
                return Ok(None);
            }
            let cancelled_at = to_the_microsecond(now);
            let values = params!(batch, cancelled_at, is_open = false, payloads_due = true);
            let mut cancelled = 0;
            if connection.execute(CANCEL, values).await? == 1 {
                insert_deliveries(connection, batch, WebhookEvent::BatchCancelled, now).await?;
                cancelled = connection.execute(CANCEL_ITEMS, params!(batch)).await?;
                connection
                    .execute(DELETE_WAITING_CHUNKS, params!(batch))
                    .await?;
                connection
                    .execute(COUNT_CANCELLED, params!(batch, count = cancelled))
                    .await?;
            }
            let batch = read::find_batch(connection, tenant, batch).await?;
            Ok(batch.map(|batch| CancelledBatch { batch, cancelled }))
        })
    }

    /// Queues the items that ended with an error or died. Returns their number, or `None` if the tenant has no such batch.
    pub async fn retry_items(
        &self,
        tenant: &str,
        batch: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<u64>, StoreError> {
        change!(self, "retry_items", no_limit, |connection| {
            let locked: Option<(i32, i32)> = connection
                .fetch_optional(LOCK_BATCH, params!(tenant, batch))
                .await?;
            let Some((next_chunk, chunk_size)) = locked else {
                return Ok(None);
            };
            let failed: Vec<i64> = connection.fetch_all(FAILED_ITEMS, params!(batch)).await?;
            let ranges = ranges(&failed, chunk_size);
            let (mut errors, mut dead) = (0_u64, 0_u64);
            for &(first, items) in &ranges {
                let end = first + i64::from(items);
                for (state, count) in [("error", &mut errors), ("dead", &mut dead)] {
                    let changed = connection
                        .execute(REQUEUE_ITEMS, params!(batch, first, end, state))
                        .await?;
                    *count += changed;
                }
            }
            let chunks: Vec<_> = (next_chunk..)
                .zip(&ranges)
                .map(|(number, &(first, items))| (number, first, items))
                .collect();
            insert_chunks(connection, &batch, &chunks, micros(now)).await?;
            let next_chunk = next_chunk + i32::try_from(chunks.len()).unwrap_or(i32::MAX);
            if !chunks.is_empty() {
                connection
                    .execute(submit::JOIN_FAIR_QUEUE, params!(tenant))
                    .await?;
                connection
                    .execute(COUNT_REQUEUED, params!(batch, errors, dead, next_chunk))
                    .await?;
            }
            Ok(Some(failed.len() as u64))
        })
    }
}

/// Returns the ranges of consecutive positions, each of at most `size` items: the first position and the length.
fn ranges(positions: &[i64], size: i32) -> Vec<(i64, i32)> {
    let mut ranges: Vec<(i64, i32)> = Vec::new();
    for &position in positions {
        match ranges.last_mut() {
            Some((first, items)) if *first + i64::from(*items) == position && *items < size => {
                *items += 1;
            }
            _ => ranges.push((position, 1)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_joined_to_ranges_of_a_limited_length() {
        let positions = [0, 1, 2, 5, 7, 8, 9, 10];
        let joined = ranges(&positions, 3);
        assert_eq!(joined, [(0, 3), (5, 1), (7, 3), (10, 1)]);
        assert!(ranges(&[], 3).is_empty());
    }
}
