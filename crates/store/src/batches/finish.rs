//! Saving the outcomes of items.

use std::collections::HashSet;

use sqlx::types::JsonValue;
use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{ChunkEnd, FinishedItems, ItemOutcome, Lease, ScanOutcome};
use super::rows::LeaseKey;
use super::submit;
use crate::call::change;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::record;
use crate::rows::{CountRow, IdRow, PositionRow};
use crate::scans::{SavedScan, check_scan, save_scan};
use crate::store::Store;
use crate::times::micros;
use crate::values::{Many, Rows, Value};

/// Locks the chunk, so that no other worker takes it before the transaction ends.
const LOCK_CHUNK: &str = "UPDATE batch_chunks SET lease_token = lease_token \
     WHERE batch_id = :batch_id AND number = :number AND lease_token = :token AND lease_owner IS NOT NULL \
     RETURNING first_item, items";

/// A finished item is not changed. The columns of the values are those of [`ItemValues::values`]. The range of positions keeps
/// Postgres from reading the whole batch.
const FINISH_ITEMS: &str = "UPDATE batch_items SET state = v.column2, cached = v.column3, \
     scan_id = v.column4, result = v.column5, error_code = v.column6, error_detail = v.column7, \
     attempts = attempts + :attempts FROM (VALUES :rows) AS v \
     WHERE batch_id = :batch AND position >= :first AND position <= :last AND position = v.column1 \
     AND state = 'queued' RETURNING position";

/// The number of items that one statement finishes. A statement has at most 1000 parameters.
const ITEMS_PER_STATEMENT: usize = 140;

/// A batch that was cancelled while a worker had the chunk has no more attempts.
const CANCEL_REMAINING: &str = "UPDATE batch_items SET state = 'cancelled' \
     WHERE batch_id = :batch AND position >= :first_item AND position < :end AND state = 'queued' \
     AND EXISTS (SELECT 1 FROM batches WHERE id = :batch AND cancelled_at IS NOT NULL)";

const REMAINING: &str = "SELECT count(*) AS count FROM batch_items \
     WHERE batch_id = :batch AND position >= :first_item AND position < :end AND state = 'queued'";

const DELETE_CHUNK: &str = "DELETE FROM batch_chunks WHERE batch_id = :batch AND number = :number";

const RETURN_CHUNK: &str = "UPDATE batch_chunks SET lease_owner = NULL, ready_at = :retry_at, announced_at = NULL \
     WHERE batch_id = :batch AND number = :number";

const COUNT: &str = "UPDATE batches SET running = running - :running, queued = queued + :returned, ok = ok + :ok, \
     cached = cached + :cached, error = error + :error, dead = dead + :dead, cancelled = cancelled + :cancelled WHERE id = :batch";

record! {
    struct RangeRow {
        first_item: i64,
        items: i32,
    }
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

/// An outcome as values of the columns of an item.
struct ItemValues<'a> {
    position: i64,
    state: &'static str,
    cached: bool,
    scan_id: Option<Uuid>,
    result: &'a Option<JsonValue>,
    code: &'a dyn Value,
    detail: &'a dyn Value,
}

impl<'a> ItemValues<'a> {
    /// Returns the values of an item without a result.
    fn failed(
        position: u64,
        state: &'static str,
        (code, detail): (&'a String, &'a String),
    ) -> Self {
        Self {
            position: row_position(position),
            state,
            cached: false,
            scan_id: None,
            result: &None,
            code,
            detail,
        }
    }

    fn values(&self) -> [&dyn Value; 7] {
        [
            &self.position,
            &self.state,
            &self.cached,
            &self.scan_id,
            self.result,
            self.code,
            self.detail,
        ]
    }
}

fn row_position(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

impl Store {
    /// Ends the chunks of cancelled batches whose worker lost its lease. Returns the number of chunks.
    pub async fn sweep_cancelled(&self, now: OffsetDateTime) -> Result<u64, StoreError> {
        change!(self, "sweep_cancelled", |connection| {
            let now = micros(now);
            let ended: Vec<ChunkKeyRow> = connection.fetch_all(ENDED_CHUNKS, params!(now)).await?;
            let mut swept = 0;
            for chunk in ended {
                let place = (chunk.batch_id, chunk.number);
                let values = params!(batch_id = chunk.batch_id, number = chunk.number, now);
                let range: Option<RangeRow> = connection.fetch_optional(LOCK_ENDED, values).await?;
                let Some(range) = range else {
                    continue;
                };
                let mut counts = Counts::default();
                return_chunk(connection, (place, &range), now, &mut counts).await?;
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
        change!(self, "finish_items", |connection| {
            let Some(key) = LeaseKey::of(lease) else {
                return Ok(None);
            };
            let values = params!(
                batch_id = key.batch_id,
                number = key.number,
                token = key.token
            );
            let range: Option<RangeRow> = connection.fetch_optional(LOCK_CHUNK, values).await?;
            let Some(range) = range else {
                return Ok(None);
            };
            // A worker that keeps its lease runs the items one by one, and `begin_item` has counted each attempt.
            let counted_before = matches!(end, ChunkEnd::Keep);
            let mut counts = Counts::default();
            // Two transactions that save the same images must lock them in the same order.
            let mut outcomes: Vec<_> = outcomes.iter().collect();
            outcomes.sort_by_key(|outcome| outcome.new_image());
            let cached = stored_scans(connection, &outcomes).await?;
            let mut items = Vec::with_capacity(outcomes.len());
            for outcome in outcomes {
                let values = item_values(connection, key.batch_id, outcome, &cached).await?;
                items.extend(values);
            }
            let attempts = i32::from(!counted_before);
            let changed = update_items(connection, key.batch_id, &items, attempts).await?;
            for item in items.iter().filter(|item| changed.contains(&item.position)) {
                counts.add(item);
            }
            let returned = match end {
                ChunkEnd::Keep => 0,
                ChunkEnd::Return { retry_at, .. } => {
                    let place = (key.batch_id, key.number);
                    return_chunk(connection, (place, &range), micros(retry_at), &mut counts).await?
                }
            };
            counts.save(connection, key.batch_id, returned).await?;
            let is_batch_done = match end {
                ChunkEnd::Keep => false,
                ChunkEnd::Return { now, .. } => {
                    submit::finish_if_done(connection, key.batch_id, now).await?
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

/// Saves the scan of an outcome and returns the values of its item. Returns `None` if the item waits, because its scan was
/// deleted in the meantime.
async fn item_values<'a>(
    connection: &mut Connection<'_>,
    batch: Uuid,
    outcome: &'a ItemOutcome,
    stored: &HashSet<Uuid>,
) -> Result<Option<ItemValues<'a>>, StoreError> {
    Ok(match outcome {
        ItemOutcome::Ok {
            position,
            scan,
            result,
            is_copy,
        } => {
            let scan = save_outcome(connection, batch, scan.as_ref(), stored).await?;
            let (scan_id, cached) = match scan {
                ItemScan::None => (None, false),
                ItemScan::Stored { id, cached } => (Some(id), cached),
                ItemScan::Deleted => return Ok(None),
            };
            Some(ItemValues {
                position: row_position(*position),
                state: "ok",
                cached: cached || *is_copy,
                scan_id,
                result,
                code: &None::<String>,
                detail: &None::<String>,
            })
        }
        ItemOutcome::Failed {
            position,
            is_dead,
            code,
            detail,
        } => {
            let state = if *is_dead { "dead" } else { "error" };
            Some(ItemValues::failed(*position, state, (code, detail)))
        }
        ItemOutcome::Retry {
            position,
            code,
            detail,
        } => Some(ItemValues::failed(*position, "queued", (code, detail))),
    })
}

/// Returns the positions of the items that were not finished before.
async fn update_items(
    connection: &mut Connection<'_>,
    batch: Uuid,
    items: &[ItemValues<'_>],
    attempts: i32,
) -> Result<HashSet<i64>, StoreError> {
    let mut changed = HashSet::with_capacity(items.len());
    for items in items.chunks(ITEMS_PER_STATEMENT) {
        let positions = || items.iter().map(|item| item.position);
        let (first, last) = (positions().min(), positions().max());
        let rows: Vec<_> = items.iter().map(ItemValues::values).collect();
        let values = params!(batch, attempts, first, last, rows = Rows(&rows));
        let rows: Vec<PositionRow> = connection.fetch_all(FINISH_ITEMS, values).await?;
        changed.extend(rows.into_iter().map(|row| row.position));
    }
    Ok(changed)
}

/// Returns the cached scans of some outcomes that are still stored.
async fn stored_scans(
    connection: &mut Connection<'_>,
    outcomes: &[&ItemOutcome],
) -> Result<HashSet<Uuid>, StoreError> {
    const IDS_PER_QUERY: usize = 500;
    let cached = outcomes.iter().filter_map(|outcome| match outcome {
        ItemOutcome::Ok {
            scan: Some(ScanOutcome::Cached(id)),
            ..
        } => Some(*id),
        _ => None,
    });
    let ids: Vec<Uuid> = cached.collect::<HashSet<_>>().into_iter().collect();
    let mut stored = HashSet::with_capacity(ids.len());
    for ids in ids.chunks(IDS_PER_QUERY) {
        let rows: Vec<IdRow> = connection
            .fetch_all(STORED, params!(ids = Many(ids)))
            .await?;
        stored.extend(rows.into_iter().map(|row| row.id));
    }
    Ok(stored)
}

/// The scan of an item in the database.
enum ItemScan {
    /// The operation has no scans.
    None,
    /// The scan with this id. It was stored before if it is cached.
    Stored { id: Uuid, cached: bool },
    /// The scan was deleted in the meantime.
    Deleted,
}

async fn save_outcome(
    connection: &mut Connection<'_>,
    batch: Uuid,
    scan: Option<&ScanOutcome>,
    stored: &HashSet<Uuid>,
) -> Result<ItemScan, StoreError> {
    match scan {
        None => Ok(ItemScan::None),
        Some(ScanOutcome::New(scan)) => {
            check_scan(scan)?;
            let saved = save_scan(connection, scan, Some(batch)).await?;
            Ok(ItemScan::Stored {
                id: saved.scan_id(scan.id),
                cached: matches!(saved, SavedScan::Kept(_)),
            })
        }
        Some(&ScanOutcome::Cached(id)) => Ok(if stored.contains(&id) {
            ItemScan::Stored { id, cached: true }
        } else {
            ItemScan::Deleted
        }),
    }
}

/// Deletes a chunk whose items are finished. Otherwise ends its lease. Returns the number of items that wait again.
async fn return_chunk(
    connection: &mut Connection<'_>,
    ((batch, number), range): ((Uuid, i32), &RangeRow),
    retry_at: i64,
    counts: &mut Counts,
) -> Result<i64, StoreError> {
    let end = range.first_item + i64::from(range.items);
    let values = params!(batch, first_item = range.first_item, end);
    let cancelled = connection.execute(CANCEL_REMAINING, values).await?;
    counts.cancelled += i64::try_from(cancelled).unwrap_or(i64::MAX);
    let remaining: Option<CountRow> = connection.fetch_optional(REMAINING, values).await?;
    let remaining = remaining.map_or(0, |row| row.count);
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

const STORED: &str = "SELECT id FROM scans WHERE id IN (:ids)";

/// The chunks of cancelled batches whose lease ended.
const ENDED_CHUNKS: &str = "SELECT c.batch_id, c.number FROM batch_chunks c \
     JOIN batches b ON b.id = c.batch_id WHERE b.cancelled_at IS NOT NULL AND c.ready_at <= :now LIMIT 100";

/// Locks the chunk if its lease is still over.
const LOCK_ENDED: &str = "UPDATE batch_chunks SET lease_token = lease_token + 1 \
     WHERE batch_id = :batch_id AND number = :number AND ready_at <= :now RETURNING first_item, items";

record! {
    struct ChunkKeyRow {
        batch_id: Uuid,
        number: i32,
    }
}

#[cfg(test)]
crate::prepared::statements!(
    LOCK_CHUNK, CANCEL_REMAINING, REMAINING, DELETE_CHUNK, RETURN_CHUNK, COUNT, STORED,
    ENDED_CHUNKS, LOCK_ENDED;
    parts: FINISH_ITEMS
);
