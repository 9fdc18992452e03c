//! Deleting subjects, and faces of libraries, whose time is over.

use std::collections::BTreeMap;

use serde_json::json;
use sqlx::types::JsonValue;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::audit::{NewAuditEntry, append};
use crate::call::{change, query};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::purge::note_deletion;
use crate::store::Store;
use crate::times::micros;

crate::prepared::statements! {
    /// Each part uses an index. A subject without any consent has no faces, so only its retention ends it.
    const OVER = "SELECT s.id, s.collection_id FROM subjects s WHERE s.expires_at <= :now \
         UNION SELECT s.id, s.collection_id FROM subjects s \
             JOIN collections c ON c.id = s.collection_id \
             WHERE s.consent_expires_at <= :now AND c.consent_required \
         UNION SELECT s.id, s.collection_id FROM collections c JOIN subjects s \
             ON s.collection_id = c.id AND s.last_seen_at <= :now - c.retention_days * 86400000000 \
         LIMIT :limit", scans "a sweep that asks each collection", sorts "what is over is found once";

    /// Waits for enrollments, which lock the collection before the subject.
    const LOCK =
        "UPDATE collections SET position = position WHERE id = :collection RETURNING tenant";

    /// A subject that was changed after it was found may not be over any more.
    const DELETE = "DELETE FROM subjects WHERE id = :subject AND (expires_at <= :now OR EXISTS \
         (SELECT 1 FROM collections c WHERE c.id = subjects.collection_id AND \
         (subjects.last_seen_at + c.retention_days * 86400000000 <= :now \
         OR (c.consent_required AND subjects.consent_expires_at <= :now))))";

    /// A library with a face whose time is over.
    const LIBRARY = "SELECT c.id FROM collections c WHERE c.kind = 'library' AND EXISTS \
         (SELECT 1 FROM enrollments e WHERE e.collection_id = c.id AND e.subject_id IS NULL \
         AND e.created_at <= :now - c.retention_days * 86400000000) LIMIT 1", scans "a sweep that asks each collection";

    const DELETE_FACES = "DELETE FROM enrollments WHERE row_id IN \
         (SELECT e.row_id FROM enrollments e JOIN collections c ON c.id = e.collection_id \
         WHERE c.id = :library AND e.subject_id IS NULL \
         AND e.created_at <= :now - c.retention_days * 86400000000 LIMIT :limit)";
}

impl Store {
    /// Deletes at most `limit` subjects whose time is over or whose consent has ended, with their faces. Returns their number.
    ///
    /// `audit` is the entry of a deletion without its tenant and its details, which this adds.
    pub async fn expire_subjects(
        &self,
        now: OffsetDateTime,
        limit: u32,
        audit: Option<&NewAuditEntry>,
    ) -> Result<u64, StoreError> {
        // Without a subject whose time is over, no writer waits.
        let over = query!(self, "find_expired_subjects", |connection| {
            let values = params!(now = micros(now), limit);
            Ok(connection.fetch_all(OVER, values).await?)
        })?;
        let mut by_collection: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
        for (subject, collection) in over {
            by_collection.entry(collection).or_default().push(subject);
        }
        let mut expired = 0;
        for (collection, subjects) in by_collection {
            expired += change!(self, "expire_subjects", |connection| {
                let locked = connection.fetch_optional(LOCK, params!(collection)).await?;
                let Some(tenant) = locked else {
                    return Ok(0);
                };
                let mut deleted = 0;
                for subject in &subjects {
                    let values = params!(subject = *subject, now = micros(now));
                    deleted += connection.execute(DELETE, values).await?;
                }
                if deleted > 0 {
                    let details = json!({"subjects": deleted});
                    note(connection, (tenant, collection, now), details, audit).await?;
                }
                Ok(deleted)
            })?;
        }
        Ok(expired)
    }

    /// Deletes at most `limit` faces of libraries whose time is over. Returns their number. `audit` is as for
    /// [`expire_subjects`](Self::expire_subjects).
    pub async fn expire_library_faces(
        &self,
        now: OffsetDateTime,
        limit: u32,
        audit: Option<&NewAuditEntry>,
    ) -> Result<u64, StoreError> {
        let library: Option<Uuid> = query!(self, "find_expired_faces", |connection| {
            let now = params!(now = micros(now));
            Ok(connection.fetch_optional(LIBRARY, now).await?)
        })?;
        let Some(library) = library else {
            return Ok(0);
        };
        change!(self, "expire_library_faces", |connection| {
            let locked = connection
                .fetch_optional(LOCK, params!(collection = library))
                .await?;
            let Some(tenant) = locked else {
                return Ok(0);
            };
            let values = params!(library, now = micros(now), limit);
            let deleted = connection.execute(DELETE_FACES, values).await?;
            if deleted > 0 {
                let details = json!({"faces": deleted});
                note(connection, (tenant, library, now), details, audit).await?;
            }
            Ok(deleted)
        })
    }
}

/// Notes a deletion for the next purge of the files, and in the audit trail.
async fn note(
    connection: &mut Connection<'_>,
    (tenant, collection, now): (String, Uuid, OffsetDateTime),
    details: JsonValue,
    audit: Option<&NewAuditEntry>,
) -> Result<(), StoreError> {
    note_deletion(connection, now).await?;
    let entry = audit.map(|entry| NewAuditEntry {
        tenant,
        target: Some(collection.to_string()),
        details: details.to_string(),
        ..entry.clone()
    });
    append(connection, entry.as_slice()).await
}
