//! The statements about enrolled faces.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;
use uuid::Uuid;

use super::live::is_live;
use super::manage;
use super::records::{CollectionKey, Enrolled, Enrollment, NewEnrollment};
use crate::audit::{NewAuditEntry, append};
use crate::call::{change, query};
use crate::connection::{Connection, insert_rows, pieces};
use crate::error::StoreError;
use crate::pages::PageRequest;
use crate::parameters::params;
use crate::store::Store;
use crate::times::micros;
use crate::values::{Many, Value};

/// Finds stored faces and the image of each.
macro_rules! stored_faces {
    ($lock:literal) => {
        concat!(
            "SELECT id, image_id FROM faces WHERE id IN (:ids) \
             AND (SELECT tenant FROM images WHERE id = faces.image_id) = :tenant ",
            $lock
        )
    };
}

crate::prepared::statements! {
    /// For a database with one writer at a time.
    const STORED_FACES = stored_faces!(""), only sqlite;

    /// Locks the faces, so that an erasure of one also finds the new enrollment. Every call locks faces in the same order.
    const LOCK_FACES = stored_faces!("ORDER BY id FOR NO KEY UPDATE"), only postgres;

    const FIND = "SELECT s.id FROM subjects s JOIN collections c ON c.id = s.collection_id \
         WHERE c.tenant = :tenant AND c.id = :collection AND NOT c.is_erased AND s.id = :subject";

    const LIVE = concat!(
        "SELECT s.id FROM subjects s JOIN collections c ON c.id = s.collection_id \
         WHERE c.id = :collection AND s.id = :subject AND ",
        is_live!()
    );

    const SEEN = "UPDATE subjects SET last_seen_at = :now WHERE id = :subject";

    const ONE = "SELECT e.id, e.subject_id, e.face_id, e.created_at FROM enrollments e \
         JOIN collections c ON c.id = e.collection_id \
         WHERE c.tenant = :tenant AND c.id = :collection AND NOT c.is_erased AND e.id = :id";

    const LIST = "SELECT e.id, e.subject_id, e.face_id, e.created_at FROM enrollments e \
         JOIN collections c ON c.id = e.collection_id \
         WHERE c.tenant = :tenant AND c.id = :collection AND NOT c.is_erased AND e.subject_id = :subject \
         AND e.row_id > coalesce((SELECT row_id FROM enrollments WHERE id = :after), 0) ORDER BY e.row_id LIMIT :limit";
}

const INTO: &str = "enrollments (id, collection_id, subject_id, face_id, image_id, created_at, \
     is_acceptable, vector)";

/// The greatest difference of the squared length of a vector from 1.
const LENGTH_TOLERANCE: f64 = 0.01;

/// Refuses a vector whose length is not 1, because products of such vectors are no cosines.
fn check(faces: &[NewEnrollment]) -> Result<(), StoreError> {
    let is_unit = |face: &NewEnrollment| {
        let squares = face.vector.iter().map(|value| f64::from(*value).powi(2));
        (squares.sum::<f64>() - 1.0).abs() < LENGTH_TOLERANCE
    };
    if faces.iter().all(is_unit) {
        Ok(())
    } else {
        Err(StoreError::Invalid(
            "the length of a vector is not 1; enroll vectors of length 1".into(),
        ))
    }
}

impl Store {
    /// Returns whether faces of a subject can be enrolled at the time `now`. The result is never [`Enrolled::NoFace`].
    pub async fn check_subject(
        &self,
        key: CollectionKey<'_>,
        subject: Uuid,
        now: OffsetDateTime,
    ) -> Result<Enrolled, StoreError> {
        query!(self, "check_subject", |connection| {
            check_subject(connection, (key, subject), now).await
        })
    }

    /// Enrolls faces of a subject, or faces of a library without a subject, or none of them. This is an interaction with the
    /// subject, from which the retention counts, unless there is no face. The audit entry is written also without a face.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] when the length of a vector is not 1.
    pub async fn enroll(
        &self,
        subject: (CollectionKey<'_>, Option<Uuid>),
        faces: &[NewEnrollment],
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Enrolled, StoreError> {
        check(faces)?;
        change!(self, "enroll", |connection| {
            // An erasure locks the collections before the stored faces, so this does too.
            let (key, subject) = subject;
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
            let rows: Vec<[&dyn Value; 8]> = faces
                .iter()
                .zip(&images)
                .map(|(face, image)| -> [&dyn Value; 8] {
                    [
                        &face.id,
                        &key.id,
                        &subject,
                        &face.face_id,
                        image,
                        &now,
                        &face.is_acceptable,
                        &face.vector,
                    ]
                })
                .collect();
            insert_rows(connection, INTO, &rows).await?;
            if let Some(subject) = subject.filter(|_| !faces.is_empty()) {
                connection.execute(SEEN, params!(subject, now)).await?;
            }
            append(connection, audit.as_slice()).await?;
            Ok(Enrolled::Done)
        })
    }

    /// Returns an enrolled face of a collection.
    pub async fn enrollment(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Enrollment>, StoreError> {
        query!(self, "enrollment", |connection| {
            let values = params!(tenant = key.tenant, collection = key.id, id);
            Ok(connection.fetch_optional(ONE, values).await?)
        })
    }

    /// Returns a page of the enrolled faces of a subject, oldest first.
    pub async fn list_enrollments(
        &self,
        key: CollectionKey<'_>,
        subject: Uuid,
        page: PageRequest,
    ) -> Result<Vec<Enrollment>, StoreError> {
        query!(self, "list_enrollments", |connection| {
            let (after, limit) = (page.after.unwrap_or_default(), page.limit);
            let values = params!(
                tenant = key.tenant,
                collection = key.id,
                subject,
                after,
                limit
            );
            Ok(connection.fetch_all(LIST, values).await?)
        })
    }
}

/// Locks the stored faces, and returns the image of each. Returns `None` if one was deleted.
async fn lock_faces(
    connection: &mut Connection<'_>,
    tenant: &str,
    faces: &[NewEnrollment],
) -> Result<Option<Vec<Option<Uuid>>>, StoreError> {
    let ids: BTreeSet<Uuid> = faces.iter().filter_map(|face| face.face_id).collect();
    let mut images = BTreeMap::new();
    let text = match connection.has_several_writers() {
        true => LOCK_FACES,
        false => STORED_FACES,
    };
    let rows: Vec<[Uuid; 1]> = ids.iter().map(|id| [*id]).collect();
    for piece in pieces(&rows) {
        let values = params!(tenant, ids = Many(piece.as_flattened()));
        let stored: Vec<(Uuid, Uuid)> = connection.fetch_all(text, values).await?;
        images.extend(stored);
    }
    if images.len() < ids.len() {
        return Ok(None);
    }
    let image = |face: &NewEnrollment| match face.face_id {
        Some(id) => images.get(&id).copied(),
        None => face.image_id,
    };
    Ok(Some(faces.iter().map(image).collect()))
}

/// Returns whether faces of a subject can be enrolled; see [`Store::check_subject`].
async fn check_subject(
    connection: &mut Connection<'_>,
    (key, subject): (CollectionKey<'_>, Uuid),
    now: OffsetDateTime,
) -> Result<Enrolled, StoreError> {
    let values = params!(tenant = key.tenant, collection = key.id, subject);
    if !connection.exists(FIND, values).await? {
        return Ok(Enrolled::NotFound);
    }
    let now = micros(now);
    let values = params!(collection = key.id, subject, now);
    if connection.exists(LIVE, values).await? {
        Ok(Enrolled::Done)
    } else {
        Ok(Enrolled::NotLive)
    }
}
