//! The rows of erasures.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::collections::mark_collections;
use super::counts;
use super::records::{ErasedCounts, Erasure, ErasureTarget, NewErasure};
use crate::audit::append;
use crate::call::{change, query};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::record::record;
use crate::rows::IdRow;
use crate::store::Store;
use crate::times::{from_micros, micros};
use crate::values::{Value, hex};

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

impl Store {
    /// Writes the row of an erasure. Returns false, and writes nothing, if the tenant has no such row.
    ///
    /// A collection is in no answer from here on.
    pub async fn begin_erasure(&self, new: &NewErasure) -> Result<bool, StoreError> {
        change!(self, "begin_erasure", |connection| {
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
                let found: Option<IdRow> =
                    connection.fetch_optional(query, &[&new.tenant, id]).await?;
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
            mark_collections(connection, &new.tenant, &new.target).await?;
            append(connection, new.audit.as_slice()).await?;
            Ok(true)
        })
    }

    /// Records that everything is erased. Returns the erasure.
    pub async fn end_erasure(
        &self,
        id: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<Erasure>, StoreError> {
        change!(self, "end_erasure", |connection| {
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
        })
    }

    /// Returns an erasure of a tenant.
    pub async fn erasure(&self, tenant: &str, id: Uuid) -> Result<Option<Erasure>, StoreError> {
        query!(self, "erasure", |connection| {
            one(connection, tenant, id).await
        })
    }

    /// Returns erasures that were interrupted: those that were requested before `requested_before`, oldest first.
    pub async fn unfinished_erasures(
        &self,
        requested_before: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<Erasure>, StoreError> {
        query!(self, "unfinished_erasures", |connection| {
            let values: [&dyn Value; 2] = [&micros(requested_before), &i64::from(limit)];
            let rows: Vec<ErasureRow> = connection.fetch_all(UNFINISHED, &values).await?;
            rows.into_iter().map(Erasure::try_from).collect()
        })
    }
}

async fn count_batches(
    connection: &mut Connection<'_>,
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
    counts::add(connection, erasure.id, counts).await
}

pub(super) async fn one(
    connection: &mut Connection<'_>,
    tenant: &str,
    id: Uuid,
) -> Result<Option<Erasure>, StoreError> {
    let row: Option<ErasureRow> = connection.fetch_optional(ONE, &[&tenant, &id]).await?;
    row.map(Erasure::try_from).transpose()
}

#[cfg(test)]
crate::prepared::statements!(
    INSERT,
    FIND_IMAGE,
    FIND_FACE,
    FIND_BATCH,
    FIND_COLLECTION,
    FIND_SUBJECT,
    FIND_ENROLMENT,
    FIND_PERSON,
    ONE,
    UNFINISHED,
    LOCK,
    COUNT_BATCHES,
    END
);
