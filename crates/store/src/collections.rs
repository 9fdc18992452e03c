//! Collections of enrolled faces: collections, their subjects, and the vectors that searches compare.
//!
//! Erasing a collection, a subject or an enrolment is an [erasure](super::Erasure).

mod enrol;
mod expire;
mod index;
mod manage;
mod records;
mod rows;
mod subjects;

use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{NewAuditEntry, StoreError};
use crate::{
    call::{change, query},
    dialect::Dialect,
    sql_store::SqlStore,
};

pub(super) use enrol::detach_scans;
pub(super) use manage::{by_id, lock};
pub use records::{
    Changed, Collection, CollectionKey, CollectionKind, CollectionSize, CollectionTerms, Consent,
    Enrolled, Enrolment, IndexChange, IndexPosition, IndexRow, LiveRow, NewEnrolment, Subject,
    SubjectChange, SubjectDetails, TermsChange, Written,
};
pub(super) use rows::EnrolmentRow;

/// A condition that is true for subjects that may be in an answer at the time in a parameter. In the query, `s` is the
/// subject and `c` is the collection.
macro_rules! is_live {
    ($now:literal) => {
        concat!(
            "(s.expires_at IS NULL OR s.expires_at > ",
            $now,
            ") AND s.last_seen_at + c.retention_days * 86400000000 > ",
            $now,
            " AND (NOT c.consent_required OR (s.consent_given_at <= ",
            $now,
            " AND s.consent_expires_at > ",
            $now,
            ")) AND NOT c.is_erased"
        )
    };
}

use is_live;

/// The same for the faces of a library, which have no subject. In the query, `e` is the enrolment.
macro_rules! is_live_face {
    ($now:literal) => {
        concat!(
            "(e.subject_id IS NULL AND NOT c.is_erased AND \
             e.created_at + c.retention_days * 86400000000 > ",
            $now,
            ")"
        )
    };
}

use is_live_face;

/// The collections of one database.
///
/// # Errors
///
/// As for [`Store`](super::Store).
#[async_trait]
pub trait CollectionStore: Send + Sync {
    /// Creates a collection. [`Written::Taken`] if the tenant has one with its name.
    async fn create_collection(
        &self,
        collection: &Collection,
        audit: Option<NewAuditEntry>,
    ) -> Result<Written, StoreError>;

    /// Returns a collection of a tenant.
    async fn collection(&self, key: CollectionKey<'_>) -> Result<Option<Collection>, StoreError>;

    /// Returns the number of subjects and of enrolled faces.
    async fn collection_size(&self, id: Uuid) -> Result<CollectionSize, StoreError>;

    /// Returns the collections of a tenant after the collection `after`, oldest first.
    async fn list_collections(
        &self,
        tenant: &str,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Collection>, StoreError>;

    /// Returns the suppression collections of a tenant with vectors of a contract.
    async fn suppression_collections(
        &self,
        tenant: &str,
        contract: &str,
    ) -> Result<Vec<Collection>, StoreError>;

    /// Changes a collection.
    async fn change_collection(
        &self,
        key: CollectionKey<'_>,
        change: &TermsChange,
        audit: Option<NewAuditEntry>,
    ) -> Result<Changed<Collection>, StoreError>;

    /// Creates a subject in a collection of a tenant.
    async fn create_subject(
        &self,
        tenant: &str,
        subject: &Subject,
        audit: Option<NewAuditEntry>,
    ) -> Result<Written, StoreError>;

    /// Returns a subject of a collection.
    async fn subject(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Subject>, StoreError>;

    /// Returns subjects of a collection after the subject `after`, oldest first. `external_id` selects the one that has it.
    async fn list_subjects(
        &self,
        key: CollectionKey<'_>,
        external_id: Option<&str>,
        (after, limit): (Option<Uuid>, u32),
    ) -> Result<Vec<Subject>, StoreError>;

    /// Changes a subject. This is an interaction, from which the retention counts, unless the change is empty.
    async fn change_subject(
        &self,
        (key, subject): (CollectionKey<'_>, Uuid),
        change: &SubjectChange,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Changed<Subject>, StoreError>;

    /// Returns whether faces of a subject can be enrolled at the time `now`. The result is never [`Enrolled::NoFace`].
    async fn check_subject(
        &self,
        key: CollectionKey<'_>,
        subject: Uuid,
        now: OffsetDateTime,
    ) -> Result<Enrolled, StoreError>;

    /// Enrols faces of a subject, or faces of a library without a subject, or none of them. This is an interaction with the
    /// subject, from which the retention counts, unless there is no face. The audit entry is written also without a face.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] when the length of a vector is not 1.
    async fn enrol(
        &self,
        (key, subject): (CollectionKey<'_>, Option<Uuid>),
        faces: &[NewEnrolment],
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Enrolled, StoreError>;

    /// Returns an enrolled face of a collection.
    async fn enrolment(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Enrolment>, StoreError>;

    /// Returns the enrolled faces of a subject, oldest first: those after an enrolled face, and at most a number of them.
    async fn list_enrolments(
        &self,
        key: CollectionKey<'_>,
        subject: Uuid,
        page: (Option<Uuid>, u32),
    ) -> Result<Vec<Enrolment>, StoreError>;

    /// Returns the rows that may be in an answer at the time `now`: those of this collection of this tenant, whose subject's
    /// time is not over and whose consent is valid where the collection requires one. The order is any.
    async fn live_rows(
        &self,
        key: CollectionKey<'_>,
        rows: &[u64],
        now: OffsetDateTime,
    ) -> Result<Vec<LiveRow>, StoreError>;

    /// Returns the number of changes of each collection so far.
    async fn index_positions(&self) -> Result<Vec<IndexPosition>, StoreError>;

    /// Returns the number of changes of a collection so far. `None` if it does not exist or is being erased.
    async fn index_position(&self, collection: Uuid) -> Result<Option<IndexPosition>, StoreError>;

    /// Returns rows of a collection after the row `after`, in order, whether or not they may be in an answer.
    async fn index_rows(
        &self,
        collection: Uuid,
        after: u64,
        limit: u32,
    ) -> Result<Vec<IndexRow>, StoreError>;

    /// Returns these rows of a collection, in any order. Rows that were removed are skipped.
    async fn index_rows_of(
        &self,
        collection: Uuid,
        rows: &[u64],
    ) -> Result<Vec<IndexRow>, StoreError>;

    /// Returns changes of a collection after the position `after`, in order. Old changes may be missing.
    async fn index_changes(
        &self,
        collection: Uuid,
        after: u64,
        limit: u32,
    ) -> Result<Vec<IndexChange>, StoreError>;

    /// Deletes the changes of a collection up to a position.
    async fn trim_index_changes(&self, collection: Uuid, up_to: u64) -> Result<(), StoreError>;

    /// Deletes at most `limit` subjects whose time is over or whose consent has ended, with their faces. Returns their number.
    ///
    /// `audit` is the entry of a deletion without its tenant and its details, which this adds.
    async fn expire_subjects(
        &self,
        now: OffsetDateTime,
        limit: u32,
        audit: Option<&NewAuditEntry>,
    ) -> Result<u64, StoreError>;

    /// Deletes at most `limit` faces of libraries whose time is over. Returns their number. `audit` is as for
    /// [`expire_subjects`](Self::expire_subjects).
    async fn expire_library_faces(
        &self,
        now: OffsetDateTime,
        limit: u32,
        audit: Option<&NewAuditEntry>,
    ) -> Result<u64, StoreError>;
}

#[async_trait]
impl<DB: Dialect> CollectionStore for SqlStore<DB> {
    async fn create_collection(
        &self,
        collection: &Collection,
        audit: Option<NewAuditEntry>,
    ) -> Result<Written, StoreError> {
        change!(self, "create_collection", |connection| manage::create(
            connection, collection, audit
        ))
    }

    async fn collection(&self, key: CollectionKey<'_>) -> Result<Option<Collection>, StoreError> {
        query!(self, "collection", |connection| manage::one(
            connection, key
        ))
    }

    async fn collection_size(&self, id: Uuid) -> Result<CollectionSize, StoreError> {
        query!(self, "collection_size", |connection| manage::size(
            connection, id
        ))
    }

    async fn list_collections(
        &self,
        tenant: &str,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Collection>, StoreError> {
        query!(self, "list_collections", |connection| manage::list(
            connection, tenant, after, limit
        ))
    }

    async fn suppression_collections(
        &self,
        tenant: &str,
        contract: &str,
    ) -> Result<Vec<Collection>, StoreError> {
        query!(self, "suppression_collections", |connection| {
            manage::suppression(connection, tenant, contract)
        })
    }

    async fn change_collection(
        &self,
        key: CollectionKey<'_>,
        change: &TermsChange,
        audit: Option<NewAuditEntry>,
    ) -> Result<Changed<Collection>, StoreError> {
        change!(self, "change_collection", |connection| manage::change(
            connection, key, change, audit
        ))
    }

    async fn create_subject(
        &self,
        tenant: &str,
        subject: &Subject,
        audit: Option<NewAuditEntry>,
    ) -> Result<Written, StoreError> {
        change!(self, "create_subject", |connection| subjects::create(
            connection, tenant, subject, audit
        ))
    }

    async fn subject(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Subject>, StoreError> {
        query!(self, "subject", |connection| subjects::one(
            connection, key, id
        ))
    }

    async fn list_subjects(
        &self,
        key: CollectionKey<'_>,
        external_id: Option<&str>,
        page: (Option<Uuid>, u32),
    ) -> Result<Vec<Subject>, StoreError> {
        query!(self, "list_subjects", |connection| subjects::list(
            connection,
            key,
            external_id,
            page
        ))
    }

    async fn change_subject(
        &self,
        subject: (CollectionKey<'_>, Uuid),
        change: &SubjectChange,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Changed<Subject>, StoreError> {
        change!(self, "change_subject", |connection| subjects::change(
            connection,
            subject,
            change,
            (now, audit)
        ))
    }

    async fn check_subject(
        &self,
        key: CollectionKey<'_>,
        subject: Uuid,
        now: OffsetDateTime,
    ) -> Result<Enrolled, StoreError> {
        query!(self, "check_subject", |connection| enrol::check_subject(
            connection,
            (key, subject),
            now
        ))
    }

    async fn enrol(
        &self,
        subject: (CollectionKey<'_>, Option<Uuid>),
        faces: &[NewEnrolment],
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Enrolled, StoreError> {
        enrol::check(faces)?;
        change!(self, "enrol", |connection| enrol::enrol(
            connection,
            subject,
            faces,
            (now, audit)
        ))
    }

    async fn enrolment(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Enrolment>, StoreError> {
        query!(self, "enrolment", |connection| enrol::one(
            connection, key, id
        ))
    }

    async fn list_enrolments(
        &self,
        key: CollectionKey<'_>,
        subject: Uuid,
        page: (Option<Uuid>, u32),
    ) -> Result<Vec<Enrolment>, StoreError> {
        query!(self, "list_enrolments", |connection| enrol::list(
            connection, key, subject, page
        ))
    }

    async fn live_rows(
        &self,
        key: CollectionKey<'_>,
        rows: &[u64],
        now: OffsetDateTime,
    ) -> Result<Vec<LiveRow>, StoreError> {
        query!(self, "live_rows", |connection| index::live(
            connection, key, rows, now
        ))
    }

    async fn index_positions(&self) -> Result<Vec<IndexPosition>, StoreError> {
        query!(self, "index_positions", |connection| index::positions(
            connection
        ))
    }

    async fn index_position(&self, collection: Uuid) -> Result<Option<IndexPosition>, StoreError> {
        query!(self, "index_position", |connection| index::position(
            connection, collection
        ))
    }

    async fn index_rows(
        &self,
        collection: Uuid,
        after: u64,
        limit: u32,
    ) -> Result<Vec<IndexRow>, StoreError> {
        query!(self, "index_rows", |connection| index::rows(
            connection, collection, after, limit
        ))
    }

    async fn index_rows_of(
        &self,
        collection: Uuid,
        rows: &[u64],
    ) -> Result<Vec<IndexRow>, StoreError> {
        query!(self, "index_rows_of", |connection| index::rows_of(
            connection, collection, rows
        ))
    }

    async fn index_changes(
        &self,
        collection: Uuid,
        after: u64,
        limit: u32,
    ) -> Result<Vec<IndexChange>, StoreError> {
        query!(self, "index_changes", |connection| index::changes(
            connection, collection, after, limit
        ))
    }

    async fn trim_index_changes(&self, collection: Uuid, up_to: u64) -> Result<(), StoreError> {
        change!(self, "trim_index_changes", |connection| index::trim(
            connection, collection, up_to
        ))
    }

    async fn expire_subjects(
        &self,
        now: OffsetDateTime,
        limit: u32,
        audit: Option<&NewAuditEntry>,
    ) -> Result<u64, StoreError> {
        // Without a subject whose time is over, no writer waits.
        let over = query!(self, "find_expired_subjects", |connection| expire::find(
            connection, now, limit
        ))?;
        let mut expired = 0;
        for (collection, subjects) in over {
            let expiry = expire::Expiry {
                collection,
                subjects,
                now,
            };
            expired += change!(self, "expire_subjects", |connection| expire::delete(
                connection, &expiry, audit
            ))?;
        }
        Ok(expired)
    }

    async fn expire_library_faces(
        &self,
        now: OffsetDateTime,
        limit: u32,
        audit: Option<&NewAuditEntry>,
    ) -> Result<u64, StoreError> {
        let library = query!(self, "find_expired_faces", |connection| expire::library(
            connection, now
        ))?;
        let Some(library) = library else {
            return Ok(0);
        };
        change!(self, "expire_library_faces", |connection| {
            expire::delete_faces(connection, library, (now, limit), audit)
        })
    }
}
