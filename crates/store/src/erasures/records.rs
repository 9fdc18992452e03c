//! Erasures, as callers of the store see them.

use sqlx::types::JsonValue;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::audit::NewAuditEntry;
use crate::record::record;

/// What is erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErasureTarget {
    /// An image with everything that was derived from it, and the items of batches that have it.
    Image(Uuid),
    /// A face and its vector, in every scan of its image.
    Face(Uuid),
    /// Every image that has this source, also if it has others, and every item of a batch.
    Source(String),
    /// Every image that was found at this host, and every item of a batch.
    Host(String),
    /// A batch with its images, its items and the results that nothing else uses.
    Batch(Uuid),
    /// A collection with its subjects and their enrolled faces.
    Collection(Uuid),
    /// A subject of a collection, with its enrolled faces.
    Subject(Uuid),
    /// An enrolled face.
    Enrollment(Uuid),
    /// A person of a library, with the faces that show this person.
    Person(Uuid),
    /// Everything that the tenant has stored. Keys and the audit trail stay.
    Tenant,
}

impl ErasureTarget {
    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Image(_) => "image",
            Self::Face(_) => "face",
            Self::Source(_) => "source",
            Self::Host(_) => "host",
            Self::Batch(_) => "batch",
            Self::Collection(_) => "collection",
            Self::Subject(_) => "subject",
            Self::Enrollment(_) => "enrollment",
            Self::Person(_) => "person",
            Self::Tenant => "tenant",
        }
    }

    /// Returns the image, if the target is one.
    pub(super) fn image(&self) -> Option<Uuid> {
        if let Self::Image(id) = self {
            Some(*id)
        } else {
            None
        }
    }

    /// Returns the source, if the target is one.
    pub(super) fn source(&self) -> Option<String> {
        if let Self::Source(source) = self {
            Some(source.clone())
        } else {
            None
        }
    }

    /// Returns the value that is stored until everything is erased.
    pub fn value(&self, tenant: &str) -> String {
        match self {
            Self::Image(id)
            | Self::Face(id)
            | Self::Batch(id)
            | Self::Collection(id)
            | Self::Subject(id)
            | Self::Enrollment(id)
            | Self::Person(id) => id.to_string(),
            Self::Source(value) | Self::Host(value) => value.clone(),
            Self::Tenant => tenant.to_owned(),
        }
    }
}

/// A request to erase something.
#[derive(Clone, Debug)]
pub struct NewErasure {
    /// The id of the erasure.
    pub id: Uuid,
    /// The tenant that owns the data.
    pub tenant: String,
    /// What is erased.
    pub target: ErasureTarget,
    /// When it was requested.
    pub requested_at: OffsetDateTime,
    /// The entry of the audit trail. It is written in the same transaction as the row.
    pub audit: Option<NewAuditEntry>,
}

record! {
    /// What an erasure has erased.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ErasedCounts {
        /// Stored images.
        pub images: u64,
        /// Scans of images.
        pub scans: u64,
        /// Faces.
        pub faces: u64,
        /// Vectors of faces and of whole images.
        pub vectors: u64,
        /// Subjects of collections.
        pub subjects: u64,
        /// Enrolled faces with their vectors.
        pub enrollments: u64,
        /// Batches.
        pub batches: u64,
        /// Items of batches.
        pub items: u64,
        /// Files of items in the store of images. Those of whole batches do not count.
        pub payloads: u64,
    }

    /// An erasure.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Erasure {
        /// The id.
        pub id: Uuid,
        /// The tenant.
        pub tenant: String,
        /// The name of the target's kind.
        pub kind: String,
        /// The id or the value. For a source or a host it is the SHA-256 of the value, in hex, once everything is erased.
        pub target: String,
        /// When it was requested.
        pub requested_at: OffsetDateTime,
        /// When everything was erased, so that no response has it.
        pub erased_at: Option<OffsetDateTime>,
        /// When the files of the database gave up the rows.
        pub purged_at: Option<OffsetDateTime>,
        /// What was erased.
        pub counts: ErasedCounts,
    }
}

impl Erasure {
    /// Returns the target of an erasure that is not finished. `None` if its row is damaged.
    pub fn unfinished_target(&self) -> Option<ErasureTarget> {
        let id = || self.target.parse().ok();
        Some(match self.kind.as_str() {
            "image" => ErasureTarget::Image(id()?),
            "face" => ErasureTarget::Face(id()?),
            "source" => ErasureTarget::Source(self.target.clone()),
            "host" => ErasureTarget::Host(self.target.clone()),
            "batch" => ErasureTarget::Batch(id()?),
            "collection" => ErasureTarget::Collection(id()?),
            "subject" => ErasureTarget::Subject(id()?),
            "enrollment" => ErasureTarget::Enrollment(id()?),
            "person" => ErasureTarget::Person(id()?),
            "tenant" => ErasureTarget::Tenant,
            _ => return None,
        })
    }
}

record! {
    /// An image that may have to be erased.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ImageToErase {
        /// The id.
        pub id: Uuid,
        /// One of its source URLs. Only the images of [`ErasureTarget::Host`] have it.
        pub source_url: Option<String>,
    }

    /// An item that may have to be erased.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ItemToErase {
        /// The position in the batch.
        pub position: u64,
        /// The SHA-256 of the submitted image.
        pub payload: Option<[u8; 32]>,
        /// The URL to fetch the image from.
        pub url: Option<String>,
        /// The URL where the image was found.
        pub source_url: Option<String>,
        /// The result of an operation that has no scan.
        pub result: Option<JsonValue>,
    }
}

/// Items of one batch to erase. Their files are deleted before.
#[derive(Clone, Copy, Debug)]
pub struct ItemErasure<'a> {
    /// The erasure.
    pub erasure: Uuid,
    /// The batch.
    pub batch: Uuid,
    /// The positions.
    pub positions: &'a [u64],
    /// The number of files that were deleted with them.
    pub payloads: u64,
    /// The time of the change.
    pub now: OffsetDateTime,
}
