//! The rows of erasures.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{ErasedCounts, Erasure, ErasureTarget, NewErasure, collections};
use crate::{
    StoreError, audit,
    batches::{from_micros, micros},
    dialect::Statements,
    record::record,
    rows::IdRow,
    values::{Value, hex},
};

const INSERT: &str = "INSERT INTO erasures (id, tenant, kind, target, requested_at, \
     images, scans, faces, vectors, batches, items, payloads) \
     VALUES ($1, $2, $3, $4, $5, 0, 0, 0, 0, 0, 0, 0)";

/// An image that exists only in batches has no row, so only its own id finds it.
const FIND_IMAGE: &str = "SELECT id FROM images WHERE tenant = $1 AND id = $2";

const FIND_FACE: &str = "SELECT f.id FROM faces f JOIN images i ON i.id = f.image_id \
     WHERE i.tenant = $1 AND f.id = $2";

const FIND_BATCH: &str =
    "SELECT id FROM batches WHERE tenant = $1 AND id = $2 AND deletion IS NULL";

const FIND_COLLECTION: &str = "SELECT id FROM collections \
     WHERE tenant = $1 AND id = $2 AND NOT is_erased";

const FIND_SUBJECT: &str = "SELECT s.id FROM subjects s \
     JOIN collections c ON c.id = s.collection_id WHERE c.tenant = $1 AND s.id = $2";

const FIND_ENROLMENT: &str = "SELECT e.id FROM enrolments e \
     JOIN collections c ON c.id = e.collection_id WHERE c.tenant = $1 AND e.id = $2";

const FIND_PERSON: &str = "SELECT p.id FROM people p \
     JOIN collections c ON c.id = p.collection_id WHERE c.tenant = $1 AND p.id = $2";

macro_rules! columns {
    () => {
        "id, tenant, kind, target, requested_at, erased_at, purged_at, images, scans, faces, \
         vectors, batches, items, payloads, subjects, enrolments"
    };
}

const ONE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM erasures WHERE tenant = $1 AND id = $2"
);

const UNFINISHED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM erasures WHERE erased_at IS NULL AND purged_at IS NULL AND requested_at < $1 \
     ORDER BY id LIMIT $2"
);

const UNPURGED: &str = "SELECT min(erased_at) AS oldest FROM \
     (SELECT erased_at FROM erasures WHERE purged_at IS NULL \
     UNION ALL SELECT committed_by FROM unpurged_deletions) unpurged";

const LOCK: &str = concat!(
    "UPDATE erasures SET images = images WHERE id = $1 AND erased_at IS NULL RETURNING ",
    columns!()
);

/// Adds what the batches of the erasure had. Their own deletion has counted it.
const COUNT_BATCHES: &str = "SELECT count(*) AS batches, \
     CAST(coalesce(sum(accepted), 0) AS bigint) AS items, \
     CAST(coalesce(sum(scans), 0) AS bigint) AS scans, \
     CAST(coalesce(sum(images), 0) AS bigint) AS images, \
     CAST(coalesce(sum(faces), 0) AS bigint) AS faces, \
     CAST(coalesce(sum(vectors), 0) AS bigint) AS vectors \
     FROM deleted_batches WHERE tenant = $1 AND deletion = 'erased' AND \
     (($2 = 'batch' AND id = $3) OR ($2 = 'tenant' AND deleted_at >= $4))";

const END: &str = "UPDATE erasures SET erased_at = $2, target = $3 WHERE id = $1";

const ADD: &str = "UPDATE erasures SET images = images + $2, scans = scans + $3, faces = faces + $4, \
     vectors = vectors + $5, batches = batches + $6, items = items + $7, payloads = payloads + $8, \
     subjects = subjects + $9, enrolments = enrolments + $10 \
     WHERE id = $1";

/// An erasure that ended while the files were purged waits for the next time.
const PURGED: &str =
    "UPDATE erasures SET purged_at = $1 WHERE purged_at IS NULL AND erased_at <= $1";

const PURGED_DELETIONS: &str = "DELETE FROM unpurged_deletions WHERE committed_by <= $1";

const DELETED: &str =
    "INSERT INTO unpurged_deletions (committed_by) VALUES ($1) ON CONFLICT DO NOTHING";

record! {
    struct UnpurgedRow {
        oldest: Option<i64>,
    }
}

record! {
    struct ErasureRow {
        id: Uuid,
        tenant: String,
        kind: String,
        target: String,
        requested_at: i64,
        erased_at: Option<i64>,
        purged_at: Option<i64>,
        images: i64,
        scans: i64,
        faces: i64,
        vectors: i64,
        batches: i64,
        items: i64,
        payloads: i64,
        subjects: i64,
        enrolments: i64,
    }
}

record! {
    struct BatchesRow {
        batches: i64,
        items: i64,
        scans: i64,
        images: i64,
        faces: i64,
        vectors: i64,
    }
}

impl TryFrom<ErasureRow> for Erasure {
    type Error = StoreError;

    fn try_from(row: ErasureRow) -> Result<Self, StoreError> {
        let id = row.id;
        let damaged = || StoreError::corrupt(format!("the time of erasure {id}"));
        Ok(Self {
            id,
            tenant: row.tenant,
            kind: row.kind,
            target: row.target,
            requested_at: from_micros(row.requested_at).ok_or_else(damaged)?,
            erased_at: row.erased_at.and_then(from_micros),
            purged_at: row.purged_at.and_then(from_micros),
            counts: ErasedCounts {
                images: count(row.images),
                scans: count(row.scans),
                faces: count(row.faces),
                vectors: count(row.vectors),
                batches: count(row.batches),
                items: count(row.items),
                payloads: count(row.payloads),
                subjects: count(row.subjects),
                enrolments: count(row.enrolments),
            },
        })
    }
}

fn count(value: i64) -> u64 {
    value.try_into().unwrap_or(0)
}

/// Writes the row of an erasure; see [`super::ErasureStore::begin_erasure`]. Run it in a transaction.
pub(super) async fn begin(
    connection: &mut impl Statements,
    new: &NewErasure,
) -> Result<bool, StoreError> {
    let find = match &new.target {
        ErasureTarget::Collection(id) => Some((FIND_COLLECTION, id)),
        ErasureTarget::Subject(id) => Some((FIND_SUBJECT, id)),
        ErasureTarget::Enrolment(id) => Some((FIND_ENROLMENT, id)),
        ErasureTarget::Person(id) => Some((FIND_PERSON, id)),
        ErasureTarget::Image(id) => Some((FIND_IMAGE, id)),
        ErasureTarget::Face(id) => Some((FIND_FACE, id)),
        ErasureTarget::Batch(id) => Some((FIND_BATCH, id)),
        ErasureTarget::Source(_) | ErasureTarget::Host(_) | ErasureTarget::Tenant => None,
    };
    if let Some((query, id)) = find {
        let found: Option<IdRow> = connection.fetch_optional(query, &[&new.tenant, id]).await?;
        if found.is_none() {
            return Ok(false);
        }
    }
    let values: [&dyn Value; 5] = [
        &new.id,
        &new.tenant,
        &new.target.kind(),
        &new.target.value(&new.tenant),
        &micros(new.requested_at),
    ];
    connection.execute(INSERT, &values).await?;
    collections::mark(connection, &new.tenant, &new.target).await?;
    audit::append(connection, new.audit.as_slice()).await?;
    Ok(true)
}

/// Adds to the counts of an erasure.
pub(super) async fn add(
    connection: &mut impl Statements,
    erasure: Uuid,
    counts: ErasedCounts,
) -> Result<(), StoreError> {
    let value = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let values: [&dyn Value; 10] = [
        &erasure,
        &value(counts.images),
        &value(counts.scans),
        &value(counts.faces),
        &value(counts.vectors),
        &value(counts.batches),
        &value(counts.items),
        &value(counts.payloads),
        &value(counts.subjects),
        &value(counts.enrolments),
    ];
    connection.execute(ADD, &values).await?;
    Ok(())
}

/// Ends an erasure; see [`super::ErasureStore::end_erasure`]. Run it in a transaction.
pub(super) async fn end(
    connection: &mut impl Statements,
    id: Uuid,
    now: OffsetDateTime,
) -> Result<Option<Erasure>, StoreError> {
    let row: Option<ErasureRow> = connection.fetch_optional(LOCK, &[&id]).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let erasure = Erasure::try_from(row)?;
    count_batches(connection, &erasure).await?;
    let target = match erasure.kind.as_str() {
        // A source or a host can be a name, and the report does not need it.
        "source" | "host" => hex(&Sha256::digest(&erasure.target)),
        _ => erasure.target,
    };
    connection
        .execute(END, &[&id, &micros(now), &target])
        .await?;
    one(connection, &erasure.tenant, id).await
}

async fn count_batches(
    connection: &mut impl Statements,
    erasure: &Erasure,
) -> Result<(), StoreError> {
    let batch = Uuid::parse_str(&erasure.target).ok();
    let values: [&dyn Value; 4] = [
        &erasure.tenant,
        &erasure.kind,
        &batch,
        &erasure.requested_at,
    ];
    let row: Option<BatchesRow> = connection.fetch_optional(COUNT_BATCHES, &values).await?;
    let Some(row) = row else {
        return Ok(());
    };
    let counts = ErasedCounts {
        images: count(row.images),
        scans: count(row.scans),
        faces: count(row.faces),
        vectors: count(row.vectors),
        batches: count(row.batches),
        items: count(row.items),
        ..ErasedCounts::default()
    };
    add(connection, erasure.id, counts).await
}

pub(super) async fn one(
    connection: &mut impl Statements,
    tenant: &str,
    id: Uuid,
) -> Result<Option<Erasure>, StoreError> {
    let row: Option<ErasureRow> = connection.fetch_optional(ONE, &[&tenant, &id]).await?;
    row.map(Erasure::try_from).transpose()
}

pub(super) async fn unfinished(
    connection: &mut impl Statements,
    requested_before: OffsetDateTime,
    limit: u32,
) -> Result<Vec<Erasure>, StoreError> {
    let values: [&dyn Value; 2] = [&micros(requested_before), &i64::from(limit)];
    let rows: Vec<ErasureRow> = connection.fetch_all(UNFINISHED, &values).await?;
    rows.into_iter().map(Erasure::try_from).collect()
}

pub(super) async fn has_unpurged(
    connection: &mut impl Statements,
    erased_before: OffsetDateTime,
) -> Result<bool, StoreError> {
    let row: Option<UnpurgedRow> = connection.fetch_optional(UNPURGED, &[]).await?;
    let oldest = row.and_then(|row| row.oldest);
    Ok(oldest.is_some_and(|oldest| oldest <= micros(erased_before)))
}

pub(super) async fn purged(
    connection: &mut impl Statements,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    connection.execute(PURGED, &[&micros(now)]).await?;
    connection
        .execute(PURGED_DELETIONS, &[&micros(now)])
        .await?;
    Ok(())
}

/// The longest time from the time of a deletion until its transaction has ended.
const COMMIT: Duration = Duration::from_secs(60);

/// Notes that rows were deleted without an erasure, so that the files of the database are purged. Run it in the transaction
/// that deletes them.
pub(crate) async fn note_deletion(
    connection: &mut impl Statements,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    let committed_by = micros(now + COMMIT);
    connection.execute(DELETED, &[&committed_by]).await?;
    Ok(())
}
