//! Erasing collections, subjects, people and enrolled faces.
//!
//! A collection can have millions of rows. So the transaction that begins its erasure only marks it, and no call returns its
//! rows from then on. Its rows are deleted page by page.

use uuid::Uuid;

use super::counts;
use super::records::{ErasedCounts, ErasureTarget};
use crate::call::change;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::prepared::Statement;
use crate::store::Store;
use crate::values::Many;

/// The rows that one transaction deletes, so that other writers do not wait long.
const PAGE: i64 = 1000;

/// The collection of a row with an id, if it is the tenant's.
macro_rules! collection_of {
    ($table:literal) => {
        concat!(
            "SELECT t.collection_id AS id FROM ",
            $table,
            " t WHERE t.id = :id AND (SELECT c.tenant FROM collections c WHERE c.id = t.collection_id) = :tenant"
        )
    };
}

crate::prepared::statements! {
    const MARK =
        "UPDATE collections SET is_erased = :is_erased WHERE tenant = :tenant AND id = :id";

    const MARK_ALL = "UPDATE collections SET is_erased = :is_erased WHERE tenant = :tenant", scans "the erasure of a tenant";

    /// Waits for changes of the collection that began before it was marked.
    const LOCK = "UPDATE collections SET position = position WHERE id = :id";

    /// Any one of them. For the first one, Postgres would read all collections by their ids if it expects to find one soon.
    const MARKED = "SELECT id FROM collections WHERE tenant = :tenant AND is_erased LIMIT 1";

    const ENROLLMENTS = "DELETE FROM enrollments WHERE row_id IN \
         (SELECT row_id FROM enrollments WHERE collection_id = :id ORDER BY row_id LIMIT :page)";

    const SUBJECTS = "DELETE FROM subjects WHERE id IN \
         (SELECT id FROM subjects WHERE collection_id = :id ORDER BY id LIMIT :page)";

    const COLLECTION = "DELETE FROM collections WHERE id = :id";

    const ENROLLMENTS_OF_SUBJECT = "DELETE FROM enrollments WHERE subject_id = :id";

    const SUBJECT = "DELETE FROM subjects WHERE id = :id";

    const ENROLLMENT = "DELETE FROM enrollments WHERE id = :id";

    pub(super) const OF_SUBJECT = collection_of!("subjects");

    pub(super) const OF_ENROLLMENT = collection_of!("enrollments");

    pub(super) const OF_PERSON = collection_of!("people");

    /// A trigger deletes the person with the last face.
    const FACES_OF_PERSON = "DELETE FROM enrollments WHERE row_id IN \
         (SELECT row_id FROM memberships WHERE person_id = :id ORDER BY row_id LIMIT :page)";

    const WITH_FACES =
        "SELECT DISTINCT collection_id AS id FROM enrollments WHERE face_id IN (:ids) ORDER BY id", sorts "the collections of a few faces";

    const WITH_IMAGES =
        "SELECT DISTINCT collection_id AS id FROM enrollments WHERE image_id IN (:ids) ORDER BY id", sorts "the collections of a few images";

    const ENROLLMENTS_OF_FACES = "DELETE FROM enrollments WHERE face_id IN (:ids)";

    const ENROLLMENTS_OF_IMAGES = "DELETE FROM enrollments WHERE image_id IN (:ids)";
}

/// Hides the collections of a target from every other call. Run it in the transaction that begins the erasure.
pub(super) async fn mark_collections(
    connection: &mut Connection<'_>,
    tenant: &str,
    target: &ErasureTarget,
) -> Result<(), StoreError> {
    match target {
        ErasureTarget::Collection(id) => {
            connection
                .execute(MARK, params!(tenant, id = *id, is_erased = true))
                .await?;
        }
        ErasureTarget::Tenant => {
            connection
                .execute(MARK_ALL, params!(tenant, is_erased = true))
                .await?;
        }
        ErasureTarget::Image(_)
        | ErasureTarget::Face(_)
        | ErasureTarget::Source(_)
        | ErasureTarget::Host(_)
        | ErasureTarget::Batch(_)
        | ErasureTarget::Subject(_)
        | ErasureTarget::Enrollment(_)
        | ErasureTarget::Person(_) => {}
    }
    Ok(())
}

impl Store {
    /// Deletes what a target has in collections: a collection, a subject, an enrollment, a person, or every collection of the
    /// tenant.
    ///
    /// A call deletes only a part of a large collection. Call this again until it returns true.
    pub async fn erase_from_collections(
        &self,
        erasure: Uuid,
        tenant: &str,
        target: &ErasureTarget,
    ) -> Result<bool, StoreError> {
        change!(self, "erase_from_collections", |connection| {
            let (id, [find, enrollments]) = match target {
                ErasureTarget::Collection(_) | ErasureTarget::Tenant => {
                    let (counts, is_done) = erase_marked(connection, tenant).await?;
                    counts::add(connection, erasure, counts).await?;
                    return Ok(is_done);
                }
                ErasureTarget::Subject(id) => (*id, [OF_SUBJECT, ENROLLMENTS_OF_SUBJECT]),
                ErasureTarget::Enrollment(id) => (*id, [OF_ENROLLMENT, ENROLLMENT]),
                ErasureTarget::Person(id) => (*id, [OF_PERSON, FACES_OF_PERSON]),
                ErasureTarget::Image(_)
                | ErasureTarget::Face(_)
                | ErasureTarget::Source(_)
                | ErasureTarget::Host(_)
                | ErasureTarget::Batch(_) => return Ok(true),
            };
            let mut counts = ErasedCounts::default();
            if lock_collection(connection, find, (tenant, id)).await? {
                let page = params!(id, page = PAGE);
                counts.enrollments = connection.execute(enrollments, page).await?;
                if matches!(target, ErasureTarget::Subject(_)) {
                    counts.subjects = connection.execute(SUBJECT, params!(id)).await?;
                }
            }
            counts::add(connection, erasure, counts).await?;
            // Only a person can have more faces than a page.
            Ok(counts.enrollments == 0 || !matches!(target, ErasureTarget::Person(_)))
        })
    }
}

/// Deletes a page of a marked collection of the tenant. Returns what was deleted, and whether nothing is left.
async fn erase_marked(
    connection: &mut Connection<'_>,
    tenant: &str,
) -> Result<(ErasedCounts, bool), StoreError> {
    let mut counts = ErasedCounts::default();
    let marked: Option<Uuid> = connection.fetch_optional(MARKED, params!(tenant)).await?;
    let Some(id) = marked else {
        return Ok((counts, true));
    };
    connection.execute(LOCK, params!(id)).await?;
    let page = params!(id, page = PAGE);
    counts.enrollments = connection.execute(ENROLLMENTS, page).await?;
    if counts.enrollments == 0 {
        counts.subjects = connection.execute(SUBJECTS, page).await?;
    }
    if counts == ErasedCounts::default() {
        connection.execute(COLLECTION, params!(id)).await?;
    }
    Ok((counts, false))
}

/// Locks the collection that a query finds. Returns false if there is none.
async fn lock_collection(
    connection: &mut Connection<'_>,
    query: Statement,
    (tenant, id): (&str, Uuid),
) -> Result<bool, StoreError> {
    let collection: Option<Uuid> = connection
        .fetch_optional(query, params!(tenant, id))
        .await?;
    if let Some(id) = collection {
        connection.execute(LOCK, params!(id)).await?;
    }
    Ok(collection.is_some())
}

/// Whose enrollments are erased.
pub(super) enum Origin<'a> {
    /// Stored faces.
    Faces(&'a [Uuid]),
    /// Images, whether or not they are stored.
    Images(&'a [Uuid]),
}

/// Deletes the enrollments of the faces or the images that are erased. Returns their number.
///
/// It locks their collections first, in order, as every other change of a collection does.
pub(super) async fn erase_enrollments_of(
    connection: &mut Connection<'_>,
    origin: Origin<'_>,
) -> Result<u64, StoreError> {
    let (find, delete, ids) = match origin {
        Origin::Faces(ids) => (WITH_FACES, ENROLLMENTS_OF_FACES, ids),
        Origin::Images(ids) => (WITH_IMAGES, ENROLLMENTS_OF_IMAGES, ids),
    };
    if ids.is_empty() {
        return Ok(0);
    }
    let ids = params!(ids = Many(ids));
    let collections: Vec<Uuid> = connection.fetch_all(find, ids).await?;
    for id in collections {
        connection.execute(LOCK, params!(id)).await?;
    }
    Ok(connection.execute(delete, ids).await?)
}
