//! The statements about enrolled faces.

use sqlx::AssertSqlSafe;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    is_live, manage,
    records::{CollectionKey, Enrolled, Enrolment, NewEnrolment},
    rows::EnrolmentRow,
};
use crate::{
    NewAuditEntry, StoreError, audit,
    batches::micros,
    dialect::{Statements, insert_rows, placeholders},
    rows::IdRow,
    values::{Floats, Value},
};

/// Locks a stored face, so that an erasure of it also finds the new enrolment. SQLite has no `FOR UPDATE`, but an update that
/// changes nothing locks the row in both databases.
const LOCK_FACE: &str = "UPDATE faces SET position = position \
     WHERE id = $2 AND image_id IN (SELECT id FROM images WHERE tenant = $1) RETURNING id";

const FIND: &str = "SELECT id FROM subjects WHERE collection_id = $1 AND id = $2";

const LIVE: &str = concat!(
    "SELECT s.id FROM subjects s JOIN collections c ON c.id = s.collection_id \
     WHERE c.id = $1 AND s.id = $2 AND ",
    is_live!("$3")
);

const SEEN: &str = "UPDATE subjects SET last_seen_at = $2 WHERE id = $1";

const INTO: &str = "enrolments (id, collection_id, subject_id, face_id, created_at, vector)";

const ONE: &str = "SELECT e.id, e.subject_id, e.face_id, e.created_at FROM enrolments e \
     JOIN collections c ON c.id = e.collection_id \
     WHERE c.tenant = $1 AND c.id = $2 AND e.id = $3";

const LIST: &str = "SELECT e.id, e.subject_id, e.face_id, e.created_at FROM enrolments e \
     JOIN collections c ON c.id = e.collection_id \
     WHERE c.tenant = $1 AND c.id = $2 AND e.subject_id = $3 ORDER BY e.row_id";

/// Refuses a value that is not finite, because no similarity can be computed with it.
pub(super) fn check(faces: &[NewEnrolment]) -> Result<(), StoreError> {
    let is_finite = |face: &NewEnrolment| face.vector.iter().all(|value| value.is_finite());
    match faces.iter().all(is_finite) {
        true => Ok(()),
        false => Err(StoreError::Invalid(
            "the vector of a face has a value that is not finite; enrol finite numbers".into(),
        )),
    }
}

/// Enrols faces; see [`super::CollectionStore::enrol`]. Run it in a transaction.
///
/// An erasure locks stored faces before the collections that they are enrolled in, so this does too.
pub(super) async fn enrol(
    connection: &mut impl Statements,
    (key, subject): (CollectionKey<'_>, Uuid),
    faces: &[NewEnrolment],
    (now, audit): (OffsetDateTime, Option<NewAuditEntry>),
) -> Result<Enrolled, StoreError> {
    for face in faces.iter().filter_map(|face| face.face_id) {
        let values: [&dyn Value; 2] = [&key.tenant, &face];
        let stored: Option<IdRow> = connection.fetch_optional(LOCK_FACE, &values).await?;
        if stored.is_none() {
            return Ok(Enrolled::NoFace);
        }
    }
    if !manage::lock(connection, key).await? {
        return Ok(Enrolled::NotFound);
    }
    let now = micros(now);
    let found: Option<IdRow> = connection
        .fetch_optional(FIND, &[&key.id, &subject])
        .await?;
    if found.is_none() {
        return Ok(Enrolled::NotFound);
    }
    let live: Option<IdRow> = connection
        .fetch_optional(LIVE, &[&key.id, &subject, &now])
        .await?;
    if live.is_none() {
        return Ok(Enrolled::NotLive);
    }
    let vectors: Vec<Floats> = faces
        .iter()
        .map(|face| Floats(face.vector.clone()))
        .collect();
    let rows: Vec<[&dyn Value; 6]> = faces
        .iter()
        .zip(&vectors)
        .map(|(face, vector)| -> [&dyn Value; 6] {
            [&face.id, &key.id, &subject, &face.face_id, &now, vector]
        })
        .collect();
    insert_rows(connection, INTO, &rows).await?;
    connection.execute(SEEN, &[&subject, &now]).await?;
    audit::append(connection, audit.as_slice()).await?;
    Ok(Enrolled::Done)
}

pub(super) async fn one(
    connection: &mut impl Statements,
    key: CollectionKey<'_>,
    id: Uuid,
) -> Result<Option<Enrolment>, StoreError> {
    let row: Option<EnrolmentRow> = connection
        .fetch_optional(ONE, &[&key.tenant, &key.id, &id])
        .await?;
    row.map(Enrolment::try_from).transpose()
}

pub(super) async fn list(
    connection: &mut impl Statements,
    key: CollectionKey<'_>,
    subject: Uuid,
) -> Result<Vec<Enrolment>, StoreError> {
    let values: [&dyn Value; 3] = [&key.tenant, &key.id, &subject];
    let rows: Vec<EnrolmentRow> = connection.fetch_all(LIST, &values).await?;
    rows.into_iter().map(Enrolment::try_from).collect()
}

/// Keeps the enrolments of faces whose scans are about to be deleted for another reason than an erasure.
pub(crate) async fn detach_scans(
    connection: &mut impl Statements,
    scans: &[Uuid],
) -> Result<(), StoreError> {
    if scans.is_empty() {
        return Ok(());
    }
    let list = placeholders(1, 1, scans.len());
    let statement = format!(
        "UPDATE enrolments SET face_id = NULL \
         WHERE face_id IN (SELECT id FROM faces WHERE scan_id IN {list})"
    );
    let values: Vec<&dyn Value> = scans.iter().map(|scan| scan as &dyn Value).collect();
    connection
        .execute(AssertSqlSafe(statement), &values)
        .await?;
    Ok(())
}
