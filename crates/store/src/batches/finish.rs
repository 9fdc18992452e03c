//! Saving the outcomes of items.

use std::collections::HashSet;

use time::OffsetDateTime;
use uuid::Uuid;

use super::outcomes::{ItemValues, OutcomeScans, item_values};
use super::records::{ChunkEnd, FinishedItems, ItemOutcome, Lease};
use super::submit;
use crate::call::change;
use crate::connection::{Connection, pieces};
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::record;
use crate::store::Store;
use crate::times::micros;
use crate::values::Rows;

crate::prepared::statements! {
    /// Locks the chunk, so that no other worker takes it before the transaction ends.
    const LOCK_CHUNK = "UPDATE batch_chunks SET lease_token = lease_token \
         WHERE batch_id = :batch_id AND number = :number AND lease_token = :token AND lease_owner IS NOT NULL \
         RETURNING batch_id, number, first_item, items";

    /// A batch that was cancelled while a worker had the chunk has no more attempts.
    const CANCEL_REMAINING = "UPDATE batch_items SET state = 'cancelled' \
         WHERE batch_id = :batch AND position >= :first_item AND position < :end AND state = 'queued' \
         AND EXISTS (SELECT 1 FROM batches WHERE id = :batch AND cancelled_at IS NOT NULL)";

    const REMAINING = "SELECT count(*) AS count FROM batch_items \
         WHERE batch_id = :batch AND position >= :first_item AND position < :end AND state = 'queued'";

    const DELETE_CHUNK = "DELETE FROM batch_chunks WHERE batch_id = :batch AND number = :number";

    const RETURN_CHUNK = "UPDATE batch_chunks SET lease_owner = NULL, ready_at = :retry_at, announced_at = NULL \
         WHERE batch_id = :batch AND number = :number";

    const COUNT = "UPDATE batches SET running = running - :running, queued = queued + :returned, ok = ok + :ok, \
         cached = cached + :cached, error = error + :error, dead = dead + :dead, cancelled = cancelled + :cancelled WHERE id = :batch";

    /// The chunks of cancelled batches whose lease ended.
    const ENDED_CHUNKS = "SELECT c.batch_id, c.number FROM batch_chunks c WHERE c.ready_at <= :now \
         AND (SELECT b.cancelled_at FROM batches b WHERE b.id = c.batch_id) IS NOT NULL LIMIT 100";

    /// Locks the chunk if its lease is still over.
    const LOCK_ENDED = "UPDATE batch_chunks SET lease_token = lease_token + 1 \
         WHERE batch_id = :batch_id AND number = :number AND ready_at <= :now \
         RETURNING batch_id, number, first_item, items";

    /// A finished item is not changed. The columns of the values are those of [`ItemValues::values`]. The range of positions keeps
    /// Postgres from reading the whole batch.
    const FINISH_ITEMS = "UPDATE batch_items SET state = v.column2, cached = v.column3, \
         scan_id = v.column4, result = v.column5, error_code = v.column6, error_detail = v.column7, \
         attempts = attempts + :attempts FROM (VALUES :rows) AS v \
         WHERE batch_id = :batch AND position >= :first AND position <= :last AND position = v.column1 \
         AND state = 'queued' RETURNING position",
        rows "bigint, text, boolean, uuid, jsonb, text, text";
}

/// The changes of a batch's counts.
#[derive(Default)]
struct Counts {
    ok: i64,
    cached: i64,
    error: i64,
    dead: i64,
    cancelled: i64,
}

record! {
    struct ChunkRow {
        batch_id: Uuid,
        number: i32,
        first_item: i64,
        items: i32,
    }
}

impl Store {
    /// Ends the chunks of cancelled batches whose worker lost its lease. Returns the number of chunks.
    pub async fn sweep_cancelled(&self, now: OffsetDateTime) -> Result<u64, StoreError> {
        change!(self, "sweep_cancelled", |connection| {
            let now = micros(now);
            let ended: Vec<(Uuid, i32)> = connection.fetch_all(ENDED_CHUNKS, params!(now)).await?;
            let mut swept = 0;
            for (batch_id, number) in ended {
                let values = params!(batch_id, number, now);
                let locked: Option<ChunkRow> =
                    connection.fetch_optional(LOCK_ENDED, values).await?;
                let Some(chunk) = locked else {
                    continue;
                };
                let mut counts = Counts::default();
                return_chunk(connection, &chunk, now, &mut counts).await?;
                counts.save(connection, chunk.batch_id, 0).await?;
                swept += 1;
            }
            Ok(swept)
        })
    }

    /// Saves the outcomes of some items of a leased chunk. Returns `None`, and writes nothing, if the lease is lost.
    ///
    /// An item that is finished already keeps its first result.
    pub async fn finish_items(
        &self,
        lease: &Lease,
        outcomes: &[ItemOutcome],
        end: ChunkEnd,
    ) -> Result<Option<FinishedItems>, StoreError> {
        change!(self, "finish_items", bulk, |connection| {
            let batch_id = lease.batch;
            let values = params!(batch_id, number = lease.chunk, token = lease.token);
            let locked: Option<ChunkRow> = connection.fetch_optional(LOCK_CHUNK, values).await?;
            let Some(chunk) = locked else {
                return Ok(None);
            };
            // A worker that keeps its lease runs the items one by one, and `begin_item` has counted each attempt.
            let counted_before = matches!(end, ChunkEnd::Keep);
            let mut counts = Counts::default();
            let scans = OutcomeScans::save(connection, batch_id, outcomes).await?;
            let items = outcomes.iter();
            let items: Vec<_> = items.filter_map(|it| item_values(it, &scans)).collect();
            let attempts = i32::from(!counted_before);
            let changed = update_items(connection, batch_id, &items, attempts).await?;
            for item in items.iter().filter(|item| changed.contains(&item.position)) {
                counts.add(item);
            }
            let returned = match end {
                ChunkEnd::Keep => 0,
                ChunkEnd::Return { retry_at, .. } => {
                    return_chunk(connection, &chunk, micros(retry_at), &mut counts).await?
                }
            };
            counts.save(connection, batch_id, returned).await?;
            let is_batch_done = match end {
                ChunkEnd::Keep => false,
                ChunkEnd::Return { now, .. } => {
                    submit::finish_if_done(connection, batch_id, now).await?
                }
            };
            Ok(Some(FinishedItems {
                finished: counts.finished().try_into().unwrap_or(0),
                is_batch_done,
            }))
        })
    }
}

impl Counts {
    fn add(&mut self, item: &ItemValues<'_>) {
        match item.state {
            "ok" => self.ok += 1,
            "error" => self.error += 1,
            "dead" => self.dead += 1,
            // The item waits for another attempt.
            _ => return,
        }
        self.cached += i64::from(item.cached);
    }

    /// Returns the number of items that an attempt ended.
    fn finished(&self) -> i64 {
        self.ok + self.error + self.dead
    }

    /// Adds the changes to the counts of the batch. `returned` is the number of items that wait again.
    async fn save(
        &self,
        connection: &mut Connection<'_>,
        batch: Uuid,
        returned: i64,
    ) -> Result<(), StoreError> {
        let running = self.finished() + returned + self.cancelled;
        let values = params!(
            batch,
            running,
            returned,
            ok = self.ok,
            cached = self.cached,
            error = self.error,
            dead = self.dead,
            cancelled = self.cancelled
        );
        connection.execute(COUNT, values).await?;
        Ok(())
    }
}

/// Returns the positions of the items that were not finished before.
async fn update_items(
    connection: &mut Connection<'_>,
    batch: Uuid,
    items: &[ItemValues<'_>],
    attempts: i32,
) -> Result<HashSet<u64>, StoreError> {
    let mut changed = HashSet::with_capacity(items.len());
    let positions = || items.iter().map(|item| item.position);
    let (first, last) = (positions().min(), positions().max());
    let rows: Vec<_> = items.iter().map(ItemValues::values).collect();
    for rows in pieces(&rows) {
        let values = params!(batch, attempts, first, last, rows = Rows(rows));
        changed.extend(connection.fetch_all::<u64>(FINISH_ITEMS, values).await?);
    }
    Ok(changed)
}

/// Deletes a chunk whose items are finished. Otherwise ends its lease. Returns the number of items that wait again.
async fn return_chunk(
    connection: &mut Connection<'_>,
    chunk: &ChunkRow,
    retry_at: i64,
    counts: &mut Counts,
) -> Result<i64, StoreError> {
    let (batch, number) = (chunk.batch_id, chunk.number);
    let end = chunk.first_item + i64::from(chunk.items);
    let values = params!(batch, first_item = chunk.first_item, end);
    let cancelled = connection.execute(CANCEL_REMAINING, values).await?;
    counts.cancelled += i64::try_from(cancelled).unwrap_or(i64::MAX);
    let remaining: i64 = connection.fetch_one(REMAINING, values).await?;
    if remaining == 0 {
        connection
            .execute(DELETE_CHUNK, params!(batch, number))
            .await?;
    } else {
        connection
            .execute(RETURN_CHUNK, params!(batch, number, retry_at))
            .await?;
    }
    Ok(remaining)
}
