//! Erasures: what was asked for, and what was erased.
//!
//! An erasure has many transactions, because objects outside the database belong to it. Its row is written first, so an
//! erasure that is interrupted is continued. Each transaction adds to the counts of the row what it has erased.

mod collections;
mod images;
mod items;
mod rows;

pub(super) use collections::erase_enrolments_of;
pub(super) use rows::note_deletion;

use async_trait::async_trait;
use sqlx::types::JsonValue;
use time::OffsetDateTime;
use uuid::Uuid;

use super::StoreError;
use crate::{
    NewAuditEntry,
    call::{change, query},
    dialect::{Dialect, FilePurge},
    sql_store::SqlStore,
};

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
    Enrolment(Uuid),
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
            Self::Enrolment(_) => "enrolment",
            Self::Person(_) => "person",
            Self::Tenant => "tenant",
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
            | Self::Enrolment(id)
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
    pub enrolments: u64,
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
    /// When everything was erased, so that no answer has it.
    pub erased_at: Option<OffsetDateTime>,
    /// When the files of the database gave up the rows.
    pub purged_at: Option<OffsetDateTime>,
    /// What was erased.
    pub counts: ErasedCounts,
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
            "enrolment" => ErasureTarget::Enrolment(id()?),
            "person" => ErasureTarget::Person(id()?),
            "tenant" => ErasureTarget::Tenant,
            _ => return None,
        })
    }
}

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

/// The erasures of one database.
///
/// # Errors
///
/// As for [`Store`](super::Store).
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Writes the row of an erasure. Returns false, and writes nothing, if the tenant has no such row.
    ///
    /// A collection is in no answer from here on.
    async fn begin_erasure(&self, new: &NewErasure) -> Result<bool, StoreError>;

    /// Returns images of a tenant that a target may include, after the image `after`, in order.
    async fn images_to_erase(
        &self,
        tenant: &str,
        target: &ErasureTarget,
        after: Uuid,
        limit: u32,
    ) -> Result<Vec<ImageToErase>, StoreError>;

    /// Deletes images of a tenant with everything that was derived from them.
    async fn erase_images(
        &self,
        erasure: Uuid,
        tenant: &str,
        images: &[Uuid],
    ) -> Result<(), StoreError>;

    /// Deletes a face and its vector.
    ///
    /// In the other scans of the image, a face is the same face if the IoU of the two boxes is at least 0.5. A scan that loses
    /// a face can no longer be returned from the cache. An answer therefore never contains a deleted face, and never omits
    /// one without a new scan.
    async fn erase_face(&self, erasure: Uuid, tenant: &str, face: Uuid) -> Result<(), StoreError>;

    /// Deletes what a target has in collections: a collection, a subject, an enrolment, a person, or every collection of the
    /// tenant.
    ///
    /// A call deletes only a part of a large collection. Call this again until it returns true.
    async fn erase_from_collections(
        &self,
        erasure: Uuid,
        tenant: &str,
        target: &ErasureTarget,
    ) -> Result<bool, StoreError>;

    /// Returns the batches of a tenant after the batch `after`, in order, with those that are being deleted.
    async fn batches_of_tenant(
        &self,
        tenant: &str,
        after: Uuid,
        limit: u32,
    ) -> Result<Vec<Uuid>, StoreError>;

    /// Returns items of a batch that a target may include, after the position `after`, in order.
    async fn items_to_erase(
        &self,
        batch: Uuid,
        target: &ErasureTarget,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ItemToErase>, StoreError>;

    /// Returns the payloads among `hashes` that an item of the batch at another position has.
    async fn shared_payloads(
        &self,
        batch: Uuid,
        positions: &[u64],
        hashes: &[[u8; 32]],
    ) -> Result<Vec<[u8; 32]>, StoreError>;

    /// Erases what items have, and cancels those that are not done.
    ///
    /// A worker that has their chunk loses its lease, so it saves no result of them.
    async fn erase_items(&self, erasure: ItemErasure<'_>) -> Result<(), StoreError>;

    /// Deletes the webhooks of a tenant.
    async fn erase_webhooks(&self, tenant: &str) -> Result<(), StoreError>;

    /// Records that everything is erased. Returns the erasure.
    async fn end_erasure(
        &self,
        id: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<Erasure>, StoreError>;

    /// Returns an erasure of a tenant.
    async fn erasure(&self, tenant: &str, id: Uuid) -> Result<Option<Erasure>, StoreError>;

    /// Returns erasures that were interrupted: those that were requested before `requested_before`, oldest first.
    async fn unfinished_erasures(
        &self,
        requested_before: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<Erasure>, StoreError>;

    /// Returns whether the files of the database may still have rows that were erased, or deleted because they were old, before
    /// `erased_before`.
    async fn has_unpurged_erasures(
        &self,
        erased_before: OffsetDateTime,
    ) -> Result<bool, StoreError>;

    /// Makes the files of the database give up erased rows, and records it for every erasure that ended before. Returns false
    /// if other connections prevent it now.
    ///
    /// SQLite overwrites deleted rows, so its write-ahead log is written back and emptied. Postgres frees the space of the
    /// rows (VACUUM), and later rows overwrite it.
    async fn purge_erased(&self, now: OffsetDateTime) -> Result<bool, StoreError>;

    /// Does the same as [`purge_erased`](Self::purge_erased), and leaves no byte of an erased row in the files: Postgres writes
    /// its tables to new files (VACUUM FULL).
    ///
    /// Nobody can use a table meanwhile, which takes minutes for millions of rows.
    async fn rewrite_erased(&self, now: OffsetDateTime) -> Result<bool, StoreError>;
}

#[async_trait]
impl<DB: Dialect> ErasureStore for SqlStore<DB> {
    async fn begin_erasure(&self, new: &NewErasure) -> Result<bool, StoreError> {
        change!(self, "begin_erasure", |connection| rows::begin(
            connection, new
        ))
    }

    async fn images_to_erase(
        &self,
        tenant: &str,
        target: &ErasureTarget,
        after: Uuid,
        limit: u32,
    ) -> Result<Vec<ImageToErase>, StoreError> {
        query!(self, "images_to_erase", no limit, |connection| images::find(
            connection,
            (tenant, target),
            after,
            limit
        ))
    }

    async fn erase_images(
        &self,
        erasure: Uuid,
        tenant: &str,
        images: &[Uuid],
    ) -> Result<(), StoreError> {
        change!(self, "erase_images", |connection| images::erase(
            connection, erasure, tenant, images
        ))
    }

    async fn erase_face(&self, erasure: Uuid, tenant: &str, face: Uuid) -> Result<(), StoreError> {
        change!(self, "erase_face", |connection| images::erase_face(
            connection, erasure, tenant, face
        ))
    }

    async fn erase_from_collections(
        &self,
        erasure: Uuid,
        tenant: &str,
        target: &ErasureTarget,
    ) -> Result<bool, StoreError> {
        change!(self, "erase_from_collections", |connection| {
            collections::erase(connection, erasure, tenant, target)
        })
    }

    async fn batches_of_tenant(
        &self,
        tenant: &str,
        after: Uuid,
        limit: u32,
    ) -> Result<Vec<Uuid>, StoreError> {
        query!(self, "batches_of_tenant", |connection| items::batches(
            connection, tenant, after, limit
        ))
    }

    async fn items_to_erase(
        &self,
        batch: Uuid,
        target: &ErasureTarget,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ItemToErase>, StoreError> {
        query!(self, "items_to_erase", no limit, |connection| items::find(
            connection,
            (batch, target),
            after,
            limit
        ))
    }

    async fn shared_payloads(
        &self,
        batch: Uuid,
        positions: &[u64],
        hashes: &[[u8; 32]],
    ) -> Result<Vec<[u8; 32]>, StoreError> {
        query!(self, "shared_payloads", |connection| items::shared(
            connection, batch, positions, hashes
        ))
    }

    async fn erase_items(&self, erasure: ItemErasure<'_>) -> Result<(), StoreError> {
        change!(self, "erase_items", |connection| items::erase(
            connection, erasure
        ))
    }

    async fn erase_webhooks(&self, tenant: &str) -> Result<(), StoreError> {
        change!(self, "erase_webhooks", |connection| items::erase_webhooks(
            connection, tenant
        ))
    }

    async fn end_erasure(
        &self,
        id: Uuid,
        now: OffsetDateTime,
    ) -> Result<Option<Erasure>, StoreError> {
        change!(self, "end_erasure", |connection| rows::end(
            connection, id, now
        ))
    }

    async fn erasure(&self, tenant: &str, id: Uuid) -> Result<Option<Erasure>, StoreError> {
        query!(self, "erasure", |connection| rows::one(
            connection, tenant, id
        ))
    }

    async fn unfinished_erasures(
        &self,
        requested_before: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<Erasure>, StoreError> {
        query!(self, "unfinished_erasures", |connection| rows::unfinished(
            connection,
            requested_before,
            limit
        ))
    }

    async fn has_unpurged_erasures(
        &self,
        erased_before: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        query!(self, "has_unpurged_erasures", |connection| {
            rows::has_unpurged(connection, erased_before)
        })
    }

    async fn purge_erased(&self, now: OffsetDateTime) -> Result<bool, StoreError> {
        self.purge(FilePurge::Free, now).await
    }

    async fn rewrite_erased(&self, now: OffsetDateTime) -> Result<bool, StoreError> {
        self.purge(FilePurge::Rewrite, now).await
    }
}

impl<DB: Dialect> SqlStore<DB> {
    async fn purge(&self, purge: FilePurge, now: OffsetDateTime) -> Result<bool, StoreError> {
        let purge = self.purge_files(purge);
        if !self.observe_without_limit("purge_files", purge).await? {
            return Ok(false);
        }
        change!(self, "purge_erased", |connection| rows::purged(
            connection, now
        ))?;
        Ok(true)
    }
}
