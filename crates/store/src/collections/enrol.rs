//! The statements about enrolled faces.

use std::collections::{BTreeMap, BTreeSet};

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
     WHERE id = $2 AND image_id IN (SELECT id FROM images WHERE tenant = $1) RETURNING image_id AS id";

const FIND: &str = "SELECT s.id FROM subjects s JOIN collections c ON c.id = s.collection_id \
     WHERE c.tenant = $1 AND c.id = $2 AND NOT c.is_erased AND s.id = $3";

const LIVE: &str = concat!(
    "SELECT s.id FROM subjects s JOIN collections c ON c.id = s.collection_id \
     WHERE c.id = $1 AND s.id = $2 AND ",
    is_live!("$3")
);

const SEEN: &str = "UPDATE subjects SET last_seen_at = $2 WHERE id = $1";

const INTO: &str = "enrolments (id, collection_id, subject_id, face_id, image_id, created_at, \
     is_acceptable, vector)";

const ONE: &str = "SELECT e.id, e.subject_id, e.face_id, e.created_at FROM enrolments e \
     JOIN collections c ON c.id = e.collection_id \
     WHERE c.tenant = $1 AND c.id = $2 AND NOT c.is_erased AND e.id = $3";

const LIST: &str = "SELECT e.id, e.subject_id, e.face_id, e.created_at FROM enrolments e \
     JOIN collections c ON c.id = e.collection_id \
     WHERE c.tenant = $1 AND c.id = $2 AND NOT c.is_erased AND e.subject_id = $3 \
     AND e.row_id > coalesce((SELECT row_id FROM enrolments WHERE id = $4), 0) ORDER BY e.row_id LIMIT $5";

/// The greatest difference of the squared length of a vector from 1.
const LENGTH_TOLERANCE: f64 = 0.01;

/// Refuses a vector whose length is not 1, because products of such vectors are no cosines.
pub(super) fn check(faces: &[NewEnrolment]) -> Result<(), StoreError> {
    let is_unit = |face: &NewEnrolment| {
        let squares = face.vector.iter().map(|value| f64::from(*value).powi(2));
        (squares.sum::<f64>() - 1.0).abs() < LENGTH_TOLERANCE
    };
    match faces.iter().all(is_unit) {
        true => Ok(()),
        false => Err(StoreError::Invalid(
            "the length of a vector is not 1; enrol vectors of length 1".into(),
        )),
    }
}

/// Enrols faces; see [`super::CollectionStore::enrol`]. Run it in a transaction.
///
/// An erasure locks the collections before the stored faces, so this does too.
pub(super) async fn enrol(
    connection: &mut impl Statements,
    (key, subject): (CollectionKey<'_>, Option<Uuid>),
    faces: &[NewEnrolment],
    (now, audit): (OffsetDateTime, Option<NewAuditEntry>),
) -> Result<Enrolled, StoreError> {
    if !manage::lock(connection, key).await? {
        return Ok(Enrolled::NotFound);
    }
    if let Some(subject) = subject {
        match check_subject(connection, (key, subject), now).await? {
            Enrolled::Done => {}
            refused => return Ok(refused),
        }
    }
    let Some(images) = lock_faces(connection, key.tenant, faces).await? else {
        return Ok(Enrolled::NoFace);
    };
    let now = micros(now);
    let vectors = faces.iter().map(|face| Floats(face.vector.clone()));
    let vectors: Vec<Floats> = vectors.collect();
    let rows: Vec<[&dyn Value; 8]> = faces
        .iter()
        .zip(images.iter().zip(&vectors))
        .map(|(face, (image, vector))| -> [&dyn Value; 8] {
            [
                &face.id,
                &key.id,
                &subject,
                &face.face_id,
                image,
                &now,
                &face.is_acceptable,
                vector,
            ]
        })
        .collect();
    insert_rows(connection, INTO, &rows).await?;
    if let Some(subject) = subject.filter(|_| !faces.is_empty()) {
        connection.execute(SEEN, &[&subject, &now]).await?;
    }
    audit::append(connection, audit.as_slice()).await?;
    Ok(Enrolled::Done)
}

/// Locks the stored faces, and returns the image of each. Returns `None` if one was deleted.
async fn lock_faces(
    connection: &mut impl Statements,
    tenant: &str,
    faces: &[NewEnrolment],
) -> Result<Option<Vec<Option<Uuid>>>, StoreError> {
    // Every call locks faces in the same order.
    let ids: BTreeSet<Uuid> = faces.iter().filter_map(|face| face.face_id).collect();
    let mut images = BTreeMap::new();
    for id in ids {
        let row: Option<IdRow> = connection
            .fetch_optional(LOCK_FACE, &[&tenant, &id])
            .await?;
        let Some(image) = row else {
            return Ok(None);
        };
        images.insert(id, image.id);
    }
    let image = |face: &NewEnrolment| match face.face_id {
        Some(id) => images.get(&id).copied(),
        None => face.image_id,
    };
    Ok(Some(faces.iter().map(image).collect()))
}

/// Returns whether faces of a subject can be enrolled; see [`super::CollectionStore::check_subject`].
pub(super) async fn check_subject(
    connection: &mut impl Statements,
    (key, subject): (CollectionKey<'_>, Uuid),
    now: OffsetDateTime,
) -> Result<Enrolled, StoreError> {
    let values: [&dyn Value; 3] = [&key.tenant, &key.id, &subject];
    let found: Option<IdRow> = connection.fetch_optional(FIND, &values).await?;
    if found.is_none() {
        return Ok(Enrolled::NotFound);
    }
    let now = micros(now);
    let values: [&dyn Value; 3] = [&key.id, &subject, &now];
    let live: Option<IdRow> = connection.fetch_optional(LIVE, &values).await?;
    Ok(match live {
        Some(_) => Enrolled::Done,
        None => Enrolled::NotLive,
    })
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
    (after, limit): (Option<Uuid>, u32),
) -> Result<Vec<Enrolment>, StoreError> {
    let (after, limit) = (after.unwrap_or_default(), i64::from(limit));
    let values: [&dyn Value; 5] = [&key.tenant, &key.id, &subject, &after, &limit];
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
    let values: Vec<&dyn Value> = scans.iter().map(|scan| scan as &dyn Value).collect();
    // A face that is enrolled meanwhile would be deleted with its scan.
    let lock = format!("UPDATE faces SET position = position WHERE scan_id IN {list}");
    connection.execute(AssertSqlSafe(lock), &values).await?;
    let detach = format!(
        "UPDATE enrolments SET face_id = NULL \
         WHERE face_id IN (SELECT id FROM faces WHERE scan_id IN {list})"
    );
    connection.execute(AssertSqlSafe(detach), &values).await?;
    Ok(())
}
