//! The rows of erasures.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::collections::{OF_ENROLLMENT, OF_PERSON, OF_SUBJECT, mark_collections};
use super::counts;
use super::records::{Erasure, ErasureTarget, NewErasure};
use crate::audit::append;
use crate::call::{change, query};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::micros;
use crate::values::hex;

macro_rules! columns {
    () => {
        "id, tenant, kind, target, requested_at, erased_at, purged_at, images, scans, faces, \
         vectors, batches, items, payloads, subjects, enrollments"
    };
}

crate::prepared::statements! {
    const INSERT = "INSERT INTO erasures (id, tenant, kind, target, requested_at, \
         images, scans, faces, vectors, batches, items, payloads) \
         VALUES (:id, :tenant, :kind, :target, :requested_at, 0, 0, 0, 0, 0, 0, 0)";

    /// An image that exists only in batches has no row, so only its own id finds it.
    const FIND_IMAGE = "SELECT id FROM images WHERE tenant = :tenant AND id = :id";

    const FIND_FACE = "SELECT id FROM faces \
         WHERE id = :id AND (SELECT tenant FROM images WHERE id = faces.image_id) = :tenant";

    const FIND_BATCH =
        "SELECT id FROM batches WHERE tenant = :tenant AND id = :id AND deletion IS NULL";

    const FIND_COLLECTION = "SELECT id FROM collections \
         WHERE tenant = :tenant AND id = :id AND NOT is_erased";

    const ONE = concat!(
        "SELECT ",
        columns!(),
        " FROM erasures WHERE tenant = :tenant AND id = :id"
    );

    const UNFINISHED = concat!(
        "SELECT ",
        columns!(),
        " FROM erasures WHERE erased_at IS NULL AND purged_at IS NULL AND requested_at < :requested_before \
         ORDER BY id LIMIT :limit"
    );

    const LOCK = concat!(
        "UPDATE erasures SET images = images WHERE id = :id AND erased_at IS NULL RETURNING ",
        columns!()
    );

    /// Adds what the batches of the erasure had. Their own deletion has counted it.
    const COUNT_BATCHES = "SELECT count(*) AS batches, \
         CAST(coalesce(sum(accepted), 0) AS bigint) AS items, \
         CAST(coalesce(sum(scans), 0) AS bigint) AS scans, \
         CAST(coalesce(sum(images), 0) AS bigint) AS images, \
         CAST(coalesce(sum(faces), 0) AS bigint) AS faces, \
         CAST(coalesce(sum(vectors), 0) AS bigint) AS vectors, \
         0 AS payloads, 0 AS subjects, 0 AS enrollments \
         FROM deleted_batches WHERE tenant = :tenant AND deletion = 'erased' AND \
         ((:kind = 'batch' AND id = :batch) OR (:kind = 'tenant' AND deleted_at >= :requested_at))", scans "once for an erasure";

    const END = "UPDATE erasures SET erased_at = :now, target = :target WHERE id = :id";
}

impl Store {
    /// Writes the row of an erasure. Returns false, and writes nothing, if the tenant has no such row.
    ///
    /// A collection is in no response from here on.
    pub async fn begin_erasure(&self, new: &NewErasure) -> Result<bool, StoreError> {
        change!(self, "begin_erasure", |connection| {
            let find = match &new.target {
                ErasureTarget::Collection(id) => Some((FIND_COLLECTION, id)),
                ErasureTarget::Subject(id) => Some((OF_SUBJECT, id)),
                ErasureTarget::Enrollment(id) => Some((OF_ENROLLMENT, id)),
                ErasureTarget::Person(id) => Some((OF_PERSON, id)),
                ErasureTarget::Image(id) => Some((FIND_IMAGE, id)),
                ErasureTarget::Face(id) => Some((FIND_FACE, id)),
                ErasureTarget::Batch(id) => Some((FIND_BATCH, id)),
                ErasureTarget::Source(_) | ErasureTarget::Host(_) | ErasureTarget::Tenant => None,
            };
            if let Some((query, id)) = find {
                let values = params!(tenant = new.tenant, id = *id);
                if !connection.exists(query, values).await? {
                    return Ok(false);
                }
            }
            let values = params!(
                id = new.id,
                tenant = new.tenant,
                kind = new.target.kind(),
                target = new.target.value(&new.tenant),
                requested_at = micros(new.requested_at)
            );
            connection.execute(INSERT, values).await?;
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
            let locked: Option<Erasure> = connection.fetch_optional(LOCK, params!(id)).await?;
            let Some(erasure) = locked else {
                return Ok(None);
            };
            count_batches(connection, &erasure).await?;
            let target = match erasure.kind.as_str() {
                // A source or a host can be a name, and the report does not need it.
                "source" | "host" => hex(&Sha256::digest(&erasure.target)),
                _ => erasure.target,
            };
            connection
                .execute(END, params!(id, now = micros(now), target))
                .await?;
            let values = params!(tenant = erasure.tenant, id);
            Ok(connection.fetch_optional(ONE, values).await?)
        })
    }

    /// Returns an erasure of a tenant.
    pub async fn erasure(&self, tenant: &str, id: Uuid) -> Result<Option<Erasure>, StoreError> {
        query!(self, "erasure", |connection| {
            let values = params!(tenant, id);
            Ok(connection.fetch_optional(ONE, values).await?)
        })
    }

    /// Returns erasures that were interrupted: those that were requested before `requested_before`, oldest first.
    pub async fn unfinished_erasures(
        &self,
        requested_before: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<Erasure>, StoreError> {
        query!(self, "unfinished_erasures", |connection| {
            let values = params!(requested_before = micros(requested_before), limit);
            Ok(connection.fetch_all(UNFINISHED, values).await?)
        })
    }
}

async fn count_batches(
    connection: &mut Connection<'_>,
    erasure: &Erasure,
) -> Result<(), StoreError> {
    let batch = Uuid::parse_str(&erasure.target).ok();
    let values = params!(
        tenant = erasure.tenant,
        kind = erasure.kind,
        batch,
        requested_at = erasure.requested_at
    );
    let counts = connection.fetch_one(COUNT_BATCHES, values).await?;
    counts::add(connection, erasure.id, counts).await
}
