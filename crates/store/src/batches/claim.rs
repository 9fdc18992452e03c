//! Leasing chunks to workers.

use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{ClaimRequest, Lease, LeasedChunk, MAX_MODELS_KEYS};
use crate::call::change;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::{Columns, Record};
use crate::store::Store;
use crate::times::{micros, to_the_microsecond};
use crate::values::Many;

macro_rules! next_chunk {
    ($lock:literal) => {
        concat!(
            "SELECT c.batch_id, c.number, c.first_item, c.items, c.lease_owner, c.lease_token, \
             c.expired_leases, b.tenant, b.operation, b.options, b.priority, b.traceparent, b.key_id \
             FROM batch_chunks c JOIN batches b ON b.id = c.batch_id \
             WHERE c.batch_id = :batch AND c.ready_at <= :now ORDER BY c.number LIMIT 1 ",
            $lock
        )
    };
}

crate::prepared::statements! {
    /// The batch whose turn it is: that of the tenant with the fewest claimed items, and of its batches that with the
    /// fewest. An interactive batch goes before the other batches of its tenant.
    const NEXT_BATCH = "SELECT b.id FROM batches b \
         WHERE b.finished_at IS NULL AND b.cancelled_at IS NULL AND b.deletion IS NULL \
         AND b.models_key IN (:models_keys) AND b.tenant NOT IN (:except) \
         AND EXISTS (SELECT 1 FROM batch_chunks c WHERE c.batch_id = b.id AND c.ready_at <= :now) \
         ORDER BY coalesce((SELECT t.served FROM batch_tenants t WHERE t.tenant = b.tenant), 0), b.priority DESC, b.served, b.id LIMIT 1", sorts "the batches that are not done";

    /// For a database with one writer at a time.
    const NEXT_CHUNK = next_chunk!("");

    /// Skips the chunks that another worker is claiming.
    const NEXT_FREE_CHUNK = next_chunk!("FOR UPDATE OF c SKIP LOCKED"), only postgres;

    const LEASE_CHUNK = "UPDATE batch_chunks SET lease_owner = :owner, lease_token = lease_token + 1, \
         ready_at = :until, expired_leases = expired_leases + :expired, announced_at = NULL WHERE batch_id = :batch_id AND number = :number";

    const ITEMS_OF_CHUNK = "SELECT position, attempts, payload, url, source, source_url \
         FROM batch_items WHERE batch_id = :batch_id AND position >= :first_item AND position < :end AND state = 'queued' \
         ORDER BY position";

    const START_BATCH = "UPDATE batches SET served = served + :served, queued = queued - :started, \
         running = running + :started, started_at = coalesce(started_at, :now) WHERE id = :batch_id";

    const SERVE_TENANT =
        "UPDATE batch_tenants SET served = served + :served WHERE tenant = :tenant";

    const EXTEND_LEASE = "UPDATE batch_chunks SET ready_at = :until \
         WHERE batch_id = :batch_id AND number = :number AND lease_token = :token AND lease_owner IS NOT NULL";

    const BEGIN_ITEM = "UPDATE batch_items SET attempts = attempts + 1 \
         WHERE batch_id = :batch_id AND position = :position AND state = 'queued' AND EXISTS \
         (SELECT 1 FROM batch_chunks c WHERE c.batch_id = :batch_id AND c.number = :number \
          AND c.lease_token = :token AND c.lease_owner IS NOT NULL)";
}

/// A chunk that is ready.
struct NextChunk {
    first_item: i64,
    /// The position after the last item.
    end: i64,
    /// Whether a worker has lost it.
    was_leased: bool,
    /// What the worker gets. It has no items yet.
    leased: LeasedChunk,
}

impl Record for NextChunk {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let was_leased = row.get::<Option<String>>("lease_owner")?.is_some();
        let (token, expired_leases): (u64, u32) =
            (row.number("lease_token")?, row.number("expired_leases")?);
        let first_item: i64 = row.get("first_item")?;
        Ok(Self {
            first_item,
            end: first_item + i64::from(row.get::<i32>("items")?),
            was_leased,
            leased: LeasedChunk {
                lease: Lease {
                    batch: row.get("batch_id")?,
                    chunk: row.number("number")?,
                    token: token + 1,
                },
                tenant: row.get("tenant")?,
                operation: row.get("operation")?,
                options: row.get("options")?,
                priority: row.get("priority")?,
                traceparent: row.get("traceparent")?,
                key_id: row.get("key_id")?,
                expired_leases: expired_leases + u32::from(was_leased),
                items: Vec::new(),
            },
        })
    }
}

impl Store {
    /// Leases the next chunk to a worker. Returns `None` if no chunk is ready.
    ///
    /// Tenants take turns by the number of items that they have had, and so do the batches of a tenant.
    pub async fn claim_chunk(
        &self,
        request: &ClaimRequest,
    ) -> Result<Option<LeasedChunk>, StoreError> {
        change!(self, "claim_chunk", |connection| {
            let Some(chunk) = next_chunk(connection, request).await? else {
                return Ok(None);
            };
            let mut leased = chunk.leased;
            let batch_id = leased.lease.batch;
            let lease = params!(
                batch_id,
                number = leased.lease.chunk,
                owner = request.owner,
                until = micros(request.until),
                expired = i32::from(chunk.was_leased)
            );
            connection.execute(LEASE_CHUNK, lease).await?;
            let range = params!(batch_id, first_item = chunk.first_item, end = chunk.end);
            leased.items = connection.fetch_all(ITEMS_OF_CHUNK, range).await?;
            let served = leased.items.len() as i64;
            // The items of an expired lease count as running already.
            let started = if chunk.was_leased { 0 } else { served };
            let now = to_the_microsecond(request.now);
            connection
                .execute(START_BATCH, params!(batch_id, served, started, now))
                .await?;
            connection
                .execute(SERVE_TENANT, params!(tenant = leased.tenant, served))
                .await?;
            Ok(Some(leased))
        })
    }

    /// Moves the end of a lease. Returns false if the lease is lost.
    pub async fn extend_lease(
        &self,
        lease: &Lease,
        until: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        change!(self, "extend_lease", |connection| {
            let values = params!(
                batch_id = lease.batch,
                number = lease.chunk,
                token = lease.token,
                until = micros(until)
            );
            Ok(connection.execute(EXTEND_LEASE, values).await? == 1)
        })
    }

    /// Counts an attempt of an item before it begins, so that the attempt counts even if the process dies. Returns false
    /// if the lease is lost.
    pub async fn begin_item(&self, lease: &Lease, position: u64) -> Result<bool, StoreError> {
        change!(self, "begin_item", |connection| {
            let values = params!(
                batch_id = lease.batch,
                number = lease.chunk,
                token = lease.token,
                position
            );
            Ok(connection.execute(BEGIN_ITEM, values).await? == 1)
        })
    }
}

async fn next_chunk(
    connection: &mut Connection<'_>,
    request: &ClaimRequest,
) -> Result<Option<NextChunk>, StoreError> {
    let now = micros(request.now);
    let Some(first) = request.models_keys.first() else {
        return Ok(None);
    };
    // A list of a fixed length keeps its plan, so the first key stands for those that are missing.
    let keys: [[u8; 32]; MAX_MODELS_KEYS] =
        std::array::from_fn(|index| *request.models_keys.get(index).unwrap_or(first));
    // No tenant has an empty name, and no list is empty.
    let nobody = [String::new()];
    let except = match request.except.as_slice() {
        [] => &nobody,
        except => except,
    };
    let values = params!(now, models_keys = Many(&keys), except = Many(except));
    let batch: Option<Uuid> = connection.fetch_optional(NEXT_BATCH, values).await?;
    let Some(batch) = batch else {
        return Ok(None);
    };
    let query = if connection.has_several_writers() {
        NEXT_FREE_CHUNK
    } else {
        NEXT_CHUNK
    };
    Ok(connection
        .fetch_optional(query, params!(batch, now))
        .await?)
}
