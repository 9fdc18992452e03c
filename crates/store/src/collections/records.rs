//! Collections, subjects and enrollments as callers of the store see them.

use serde::{Deserialize, Serialize};
use sqlx::types::JsonValue;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::named::named;
use crate::record::record;

named! {
    /// What a collection is for.
    #[derive(Default, Deserialize, Serialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum CollectionKind {
        /// People who can be searched for.
        #[default]
        Gallery = "gallery",
        /// People who must not be enrolled in a gallery of the tenant, nor found in one.
        Suppression = "suppression",
        /// Faces without subjects, which are grouped into people.
        Library = "library",
    }
}

record! {
    /// A collection of people whose faces are compared with each other.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Collection {
        /// The id.
        pub id: Uuid,
        /// The tenant that owns it.
        pub tenant: String,
        /// The kind. It never changes.
        pub kind: CollectionKind,
        /// The vector space of all its vectors. It never changes.
        pub vector_space: String,
        /// The length of its vectors.
        pub dim: u32,
        /// When it was created.
        pub created_at: OffsetDateTime,
        /// What can be changed.
        pub terms: CollectionTerms,
        /// The number of changes of its enrollments so far. An index that has applied as many is up to date.
        pub position: u64,
        /// The number of enrolled faces.
        pub enrolled: u64,
    }
}

impl Collection {
    /// Returns the position that an index of the collection must have.
    pub fn index_position(&self) -> IndexPosition {
        IndexPosition {
            collection_id: self.id,
            vector_space: self.vector_space.clone(),
            dim: self.dim,
            position: self.position,
            enrolled: self.enrolled,
        }
    }
}

record! {
    /// What can be changed in a collection.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CollectionTerms {
        /// The name, which no other collection of the tenant has.
        pub name: String,
        /// Why the faces are processed.
        pub purpose: String,
        /// What allows it.
        pub legal_basis: String,
        /// Whether a subject without a valid consent is neither enrolled nor found.
        pub consent_required: bool,
        /// The days after a subject's last interaction when it is erased.
        pub retention_days: u32,
        /// The false accept rate that searches use by default.
        pub far: f64,
    }
}

/// Changes of a collection. Fields that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TermsChange {
    /// The name.
    pub name: Option<String>,
    /// What allows the processing.
    pub legal_basis: Option<String>,
    /// Whether consent is required. With true, enrollments of subjects without any consent are deleted.
    pub consent_required: Option<bool>,
    /// The retention in days.
    pub retention_days: Option<u32>,
    /// The false accept rate.
    pub far: Option<f64>,
}

impl TermsChange {
    pub(super) fn applied_to(&self, terms: CollectionTerms) -> CollectionTerms {
        let change = self.clone();
        CollectionTerms {
            name: change.name.unwrap_or(terms.name),
            purpose: terms.purpose,
            legal_basis: change.legal_basis.unwrap_or(terms.legal_basis),
            consent_required: change.consent_required.unwrap_or(terms.consent_required),
            retention_days: change.retention_days.unwrap_or(terms.retention_days),
            far: change.far.unwrap_or(terms.far),
        }
    }
}

record! {
    /// The size of a collection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CollectionSize {
        /// Subjects.
        pub subjects: u64,
        /// Enrolled faces.
        pub enrollments: u64,
    }
}

/// A collection of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionKey<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The id of the collection.
    pub id: Uuid,
}

record! {
    /// A person in a collection.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Subject {
        /// The id.
        pub id: Uuid,
        /// The collection.
        pub collection_id: Uuid,
        /// When the subject was created.
        pub created_at: OffsetDateTime,
        /// The last interaction: the creation, a change, or an enrollment of a face.
        pub last_seen_at: OffsetDateTime,
        /// What can be changed.
        pub details: SubjectDetails,
    }

    /// What can be changed in a subject.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct SubjectDetails {
        /// The caller's id, which no other subject of the collection has.
        pub external_id: Option<String>,
        /// What the caller wants to keep with it.
        pub metadata: Option<JsonValue>,
        /// The consent.
        pub consent: Option<Consent>,
        /// When the subject is erased, if that is before the end of the retention.
        pub expires_at: Option<OffsetDateTime>,
    }
}

/// Changes of a subject. Fields that are `None` stay as they are, and `Some(None)` removes one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubjectChange {
    /// The caller's id.
    pub external_id: Option<Option<String>>,
    /// What the caller keeps with the subject.
    pub metadata: Option<Option<JsonValue>>,
    /// The consent. If it is removed and the collection requires one, the enrollments of the subject are deleted.
    pub consent: Option<Option<Consent>>,
    /// When the subject is erased.
    pub expires_at: Option<Option<OffsetDateTime>>,
}

impl SubjectChange {
    /// Returns the details with these changes.
    #[must_use]
    pub fn applied_to(&self, details: SubjectDetails) -> SubjectDetails {
        let change = self.clone();
        SubjectDetails {
            external_id: change.external_id.unwrap_or(details.external_id),
            metadata: change.metadata.unwrap_or(details.metadata),
            consent: change.consent.unwrap_or(details.consent),
            expires_at: change.expires_at.unwrap_or(details.expires_at),
        }
    }
}

/// A subject's consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// Where the consent can be found.
    pub reference: String,
    /// When it was given.
    pub given_at: OffsetDateTime,
    /// When it ends.
    pub expires_at: OffsetDateTime,
}

/// The result of a call that writes a name or an external id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is written.
    Done,
    /// The collection or the subject does not exist.
    NotFound,
    /// Another one has the name or the external id. Nothing was written.
    Taken,
}

/// The result of a call that changes a collection or a subject.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed<T> {
    /// It is changed, and is this now.
    Done(T),
    /// It does not exist.
    NotFound,
    /// Another one has the name or the external id. Nothing was written.
    Taken,
}

/// A face to be enrolled.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEnrollment {
    /// The id of the enrollment.
    pub id: Uuid,
    /// The stored face that the vector came from. The enrollment is erased with it.
    pub face_id: Option<Uuid>,
    /// An id that the faces of one image share, if the image is not stored.
    pub image_id: Option<Uuid>,
    /// Whether the quality suffices to found a person of a library.
    pub is_acceptable: bool,
    /// The vector, of length 1.
    pub vector: Vec<f32>,
}

/// The result of enrolling faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enrolled {
    /// It is enrolled.
    Done,
    /// The stored face was deleted meanwhile.
    NoFace,
    /// The subject has no valid consent, or its time is over.
    NotLive,
    /// The collection or the subject does not exist.
    NotFound,
}

record! {
    /// An enrolled face, without its vector.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Enrollment {
        /// The id.
        pub id: Uuid,
        /// The subject. `None` in a library.
        pub subject_id: Option<Uuid>,
        /// The stored face that the vector came from.
        pub face_id: Option<Uuid>,
        /// When it was enrolled.
        pub created_at: OffsetDateTime,
    }

    /// How many changes a collection has had.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct IndexPosition {
        /// The collection.
        pub collection_id: Uuid = get("id"),
        /// The vector space of its vectors.
        pub vector_space: String,
        /// The length of its vectors.
        pub dim: u32,
        /// The number of changes so far.
        pub position: u64,
        /// The number of rows.
        pub enrolled: u64,
    }

    /// A change of the rows of a collection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IndexChange {
        /// The number of the change in the collection, from 1 and without gaps.
        pub position: u64,
        /// Whether the row was added; otherwise it was removed.
        pub is_added: bool,
        /// The row.
        pub row: u64 = number("row_id"),
    }

    /// A row of a collection with its vector.
    #[derive(Clone, Debug, PartialEq)]
    pub struct IndexRow {
        /// The row, which is never used again.
        pub row: u64 = number("row_id"),
        /// The vector, of length 1.
        pub vector: Vec<f32>,
    }

    /// An enrolled face that may be in a response.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LiveRow {
        /// The row in the index.
        pub row: u64 = number("row_id"),
        /// The enrollment.
        pub enrollment: Enrollment,
        /// The caller's id of the subject.
        pub external_id: Option<String>,
        /// The person of a library that the face shows.
        pub person_id: Option<Uuid>,
        /// The vector, of length 1.
        pub vector: Vec<f32>,
    }
}
