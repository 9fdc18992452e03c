//! Libraries: collections whose faces are grouped into people, by clusterings and by users.
//!
//! Enrolling, searching and erasing faces of a library are the same as for other
//! [collections](super::CollectionStore).

mod assign;
mod clusterings;
mod decide;
mod read;
mod records;
mod rows;

use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{CollectionKey, NewAuditEntry, StoreError, Written};
use crate::{
    call::{change, query},
    dialect::Dialect,
    sql_store::SqlStore,
};

pub use records::{
    Assignment, Clustering, ClusteringEnd, ClusteringProgress, ClusteringState, Decided, Decision,
    FaceFilter, FaceRow, LeasedClustering, LibraryFace, Membership, NewClustering, Person,
};

/// The libraries of one database.
///
/// # Errors
///
/// As for [`Store`](super::Store).
#[async_trait]
pub trait LibraryStore: Send + Sync {
    /// Returns people of a library after the person `after`, oldest first.
    async fn people(
        &self,
        key: CollectionKey<'_>,
        page: (Option<Uuid>, u32),
    ) -> Result<Vec<Person>, StoreError>;

    /// Returns a person of a library.
    async fn person(&self, key: CollectionKey<'_>, id: Uuid) -> Result<Option<Person>, StoreError>;

    /// Returns faces of a library after the enrolment `after`, oldest first.
    async fn library_faces(
        &self,
        key: CollectionKey<'_>,
        filter: FaceFilter,
        page: (Option<Uuid>, u32),
    ) -> Result<Vec<LibraryFace>, StoreError>;

    /// Stores what a user decides about people.
    async fn decide(
        &self,
        key: CollectionKey<'_>,
        decision: &Decision,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Decided, StoreError>;

    /// Adds a clustering that a server does later. [`Written::Taken`] if another one of the library is not finished.
    async fn create_clustering(
        &self,
        key: CollectionKey<'_>,
        new: &NewClustering,
        audit: Option<NewAuditEntry>,
    ) -> Result<Written, StoreError>;

    /// Returns a clustering.
    async fn clustering(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Clustering>, StoreError>;

    /// Returns clusterings of a library before the clustering `before`, newest first.
    async fn list_clusterings(
        &self,
        key: CollectionKey<'_>,
        page: (Option<Uuid>, u32),
    ) -> Result<Vec<Clustering>, StoreError>;

    /// Cancels a clustering that is not finished. Returns it as it is then, or `None` if the library has none with this id.
    async fn cancel_clustering(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Option<Clustering>, StoreError>;

    /// Leases the oldest clustering that no server works on, until the time `until`.
    async fn lease_clustering(
        &self,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<Option<LeasedClustering>, StoreError>;

    /// Extends a lease, and stores how far the clustering is. Returns false if the lease is lost.
    async fn renew_clustering(
        &self,
        leased: &LeasedClustering,
        until: OffsetDateTime,
        progress: ClusteringProgress,
    ) -> Result<bool, StoreError>;

    /// Ends a clustering. Returns false if the lease is lost.
    async fn end_clustering(
        &self,
        leased: &LeasedClustering,
        end: &ClusteringEnd,
        now: OffsetDateTime,
    ) -> Result<bool, StoreError>;

    /// Returns faces of a library after the row `after`, in order.
    async fn face_rows(
        &self,
        collection: Uuid,
        after: u64,
        limit: u32,
    ) -> Result<Vec<FaceRow>, StoreError>;

    /// Adds people who have no faces yet. Returns false, and adds nobody, if the lease is lost.
    async fn add_people(
        &self,
        leased: &LeasedClustering,
        people: &[Uuid],
        now: OffsetDateTime,
    ) -> Result<bool, StoreError>;

    /// Assigns faces to people, except faces that a user has pinned. Skips faces and people that do not exist any more.
    /// Returns false, and assigns nothing, if the lease is lost.
    async fn assign_people(
        &self,
        leased: &LeasedClustering,
        assignments: &[Assignment],
    ) -> Result<bool, StoreError>;

    /// Deletes at most `limit` people of the library who have no faces. Returns their number, which is 0 if the lease is lost.
    async fn delete_empty_people(
        &self,
        leased: &LeasedClustering,
        limit: u32,
    ) -> Result<u64, StoreError>;
}

#[async_trait]
impl<DB: Dialect> LibraryStore for SqlStore<DB> {
    async fn people(
        &self,
        key: CollectionKey<'_>,
        page: (Option<Uuid>, u32),
    ) -> Result<Vec<Person>, StoreError> {
        query!(self, "people", |connection| read::people(
            connection, key, page
        ))
    }

    async fn person(&self, key: CollectionKey<'_>, id: Uuid) -> Result<Option<Person>, StoreError> {
        query!(self, "person", |connection| read::person(
            connection, key, id
        ))
    }

    async fn library_faces(
        &self,
        key: CollectionKey<'_>,
        filter: FaceFilter,
        page: (Option<Uuid>, u32),
    ) -> Result<Vec<LibraryFace>, StoreError> {
        query!(self, "library_faces", |connection| read::faces(
            connection, key, filter, page
        ))
    }

    async fn decide(
        &self,
        key: CollectionKey<'_>,
        decision: &Decision,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Decided, StoreError> {
        change!(self, "decide", |connection| decide::decide(
            connection,
            key,
            decision,
            (now, audit)
        ))
    }

    async fn create_clustering(
        &self,
        key: CollectionKey<'_>,
        new: &NewClustering,
        audit: Option<NewAuditEntry>,
    ) -> Result<Written, StoreError> {
        change!(self, "create_clustering", |connection| {
            clusterings::create(connection, key, new, audit)
        })
    }

    async fn clustering(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Clustering>, StoreError> {
        query!(self, "clustering", |connection| clusterings::one(
            connection, key, id
        ))
    }

    async fn list_clusterings(
        &self,
        key: CollectionKey<'_>,
        page: (Option<Uuid>, u32),
    ) -> Result<Vec<Clustering>, StoreError> {
        query!(self, "list_clusterings", |connection| clusterings::list(
            connection, key, page
        ))
    }

    async fn cancel_clustering(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Option<Clustering>, StoreError> {
        change!(self, "cancel_clustering", |connection| {
            clusterings::cancel(connection, key, id, (now, audit))
        })
    }

    async fn lease_clustering(
        &self,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<Option<LeasedClustering>, StoreError> {
        // Servers look every second. Without a clustering that waits, no writer waits for them.
        let next = query!(self, "next_clustering", |connection| clusterings::next(
            connection, now
        ))?;
        if next.is_none() {
            return Ok(None);
        }
        change!(self, "lease_clustering", |connection| clusterings::lease(
            connection, now, until
        ))
    }

    async fn renew_clustering(
        &self,
        leased: &LeasedClustering,
        until: OffsetDateTime,
        progress: ClusteringProgress,
    ) -> Result<bool, StoreError> {
        change!(self, "renew_clustering", |connection| clusterings::renew(
            connection, leased, until, progress
        ))
    }

    async fn end_clustering(
        &self,
        leased: &LeasedClustering,
        end: &ClusteringEnd,
        now: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        change!(self, "end_clustering", |connection| clusterings::end(
            connection, leased, end, now
        ))
    }

    async fn face_rows(
        &self,
        collection: Uuid,
        after: u64,
        limit: u32,
    ) -> Result<Vec<FaceRow>, StoreError> {
        query!(self, "face_rows", |connection| read::rows(
            connection, collection, after, limit
        ))
    }

    async fn add_people(
        &self,
        leased: &LeasedClustering,
        people: &[Uuid],
        now: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        change!(self, "add_people", |connection| assign::add_people(
            connection, leased, people, now
        ))
    }

    async fn assign_people(
        &self,
        leased: &LeasedClustering,
        assignments: &[Assignment],
    ) -> Result<bool, StoreError> {
        change!(self, "assign_people", |connection| assign::assign(
            connection,
            leased,
            assignments
        ))
    }

    async fn delete_empty_people(
        &self,
        leased: &LeasedClustering,
        limit: u32,
    ) -> Result<u64, StoreError> {
        change!(self, "delete_empty_people", |connection| {
            assign::delete_empty(connection, leased, limit)
        })
    }
}
