//! Deleting subjects whose time is over.

use time::OffsetDateTime;

use crate::{StoreError, batches::micros, dialect::Statements, record::record, values::Value};

/// A subject without any consent has no faces, so only its retention ends it.
const OVER: &str = "SELECT s.id, s.collection_id FROM subjects s \
     JOIN collections c ON c.id = s.collection_id \
     WHERE s.expires_at <= $1 OR s.last_seen_at + c.retention_days * 86400000000 <= $1 \
     OR (c.consent_required AND s.consent_expires_at <= $1) ORDER BY s.collection_id LIMIT $2";

/// Waits for enrolments, which lock the collection before the subject.
const LOCK: &str = "UPDATE collections SET position = position WHERE id = $1";

/// A subject that was changed after it was found may not be over any more.
const DELETE: &str = "DELETE FROM subjects WHERE id = $1 AND (expires_at <= $2 OR EXISTS \
     (SELECT 1 FROM collections c WHERE c.id = subjects.collection_id AND \
     (subjects.last_seen_at + c.retention_days * 86400000000 <= $2 \
     OR (c.consent_required AND subjects.consent_expires_at <= $2))))";

record! {
    struct OverRow {
        id: uuid::Uuid,
        collection_id: uuid::Uuid,
    }
}

/// Deletes subjects; see [`super::CollectionStore::expire_subjects`]. Run it in a transaction.
pub(super) async fn subjects(
    connection: &mut impl Statements,
    now: OffsetDateTime,
    limit: u32,
) -> Result<u64, StoreError> {
    let now = micros(now);
    let values: [&dyn Value; 2] = [&now, &i64::from(limit)];
    let over: Vec<OverRow> = connection.fetch_all(OVER, &values).await?;
    let mut deleted = 0;
    let mut locked = None;
    for row in over {
        if locked != Some(row.collection_id) {
            connection.execute(LOCK, &[&row.collection_id]).await?;
            locked = Some(row.collection_id);
        }
        deleted += connection.execute(DELETE, &[&row.id, &now]).await?;
    }
    Ok(deleted)
}
