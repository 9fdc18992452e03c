//! The queries about people and about the faces of libraries.

use uuid::Uuid;

use super::records::{FaceFilter, FaceRow, LibraryFace, Person};
use crate::call::query;
use crate::collections::CollectionKey;
use crate::error::StoreError;
use crate::pages::PageRequest;
use crate::parameters::params;
use crate::store::Store;

macro_rules! people {
    ($rest:literal) => {
        concat!(
            "SELECT p.id, p.name, p.created_at, \
             (SELECT count(*) FROM memberships m WHERE m.person_id = p.id) AS faces \
             FROM people p JOIN collections c ON c.id = p.collection_id \
             WHERE c.tenant = :tenant AND c.id = :collection AND NOT c.is_erased AND ",
            $rest
        )
    };
}

macro_rules! faces {
    ($rest:literal) => {
        concat!(
            "SELECT e.id, e.subject_id, e.face_id, e.created_at, e.image_id, e.is_acceptable, \
             m.person_id, m.is_pinned FROM enrollments e \
             JOIN collections c ON c.id = e.collection_id \
             LEFT JOIN memberships m ON m.row_id = e.row_id \
             WHERE c.tenant = :tenant AND c.id = :collection AND NOT c.is_erased \
             AND e.row_id > coalesce((SELECT a.row_id FROM enrollments a WHERE a.id = :after \
             AND a.collection_id = :collection), 0) ",
            $rest,
            " ORDER BY e.row_id LIMIT :limit"
        )
    };
}

crate::prepared::statements! {
    const PEOPLE = people!("p.id > :after ORDER BY p.id LIMIT :limit");

    const PERSON = people!("p.id = :id");

    const ALL = faces!("");

    const UNASSIGNED = faces!("AND m.person_id IS NULL");

    const OF_PERSON = faces!("AND m.person_id = :person");

    const ROWS = "SELECT e.row_id, e.image_id, e.is_acceptable, m.person_id, m.is_pinned \
         FROM enrollments e LEFT JOIN memberships m ON m.row_id = e.row_id \
         WHERE e.collection_id = :collection AND e.row_id > :after ORDER BY e.row_id LIMIT :limit";
}

impl Store {
    /// Returns a page of the people of a library, oldest first.
    pub async fn people(
        &self,
        key: CollectionKey<'_>,
        page: PageRequest,
    ) -> Result<Vec<Person>, StoreError> {
        query!(self, "people", |connection| {
            let (after, limit) = (page.after.unwrap_or_default(), page.limit);
            let values = params!(tenant = key.tenant, collection = key.id, after, limit);
            Ok(connection.fetch_all(PEOPLE, values).await?)
        })
    }

    /// Returns a person of a library.
    pub async fn person(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Person>, StoreError> {
        query!(self, "person", |connection| {
            let values = params!(tenant = key.tenant, collection = key.id, id);
            Ok(connection.fetch_optional(PERSON, values).await?)
        })
    }

    /// Returns a page of the faces of a library by their enrollments, oldest first.
    pub async fn library_faces(
        &self,
        key: CollectionKey<'_>,
        filter: FaceFilter,
        page: PageRequest,
    ) -> Result<Vec<LibraryFace>, StoreError> {
        query!(self, "library_faces", |connection| {
            let (after, limit) = (page.after.unwrap_or_default(), page.limit);
            let (query, person) = match filter {
                FaceFilter::All => (ALL, None),
                FaceFilter::Unassigned => (UNASSIGNED, None),
                FaceFilter::Of(person) => (OF_PERSON, Some(person)),
            };
            let values = params!(
                tenant = key.tenant,
                collection = key.id,
                after,
                limit,
                person
            );
            Ok(connection.fetch_all(query, values).await?)
        })
    }

    /// Returns faces of a library after the row `after`, in order.
    pub async fn face_rows(
        &self,
        collection: Uuid,
        after: u64,
        limit: u32,
    ) -> Result<Vec<FaceRow>, StoreError> {
        query!(self, "face_rows", |connection| {
            let values = params!(collection, after, limit);
            Ok(connection.fetch_all(ROWS, values).await?)
        })
    }
}
