//! Stored results: pictures, scans, faces and embeddings, in Postgres or SQLite.
//!
//! [`connect`] picks the database by the scheme of its URL. The logic is written once, over
//! `dialect::Statements`; the SQL is the same text for both. What differs is in `postgres.rs`,
//! `sqlite.rs`, the value types of `values.rs` and the migrations.

mod dialect;
mod erase;
mod error;
mod migrations;
mod postgres;
mod read;
mod record;
mod records;
mod rows;
mod save;
mod sql_store;
mod sqlite;
mod values;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;
use uuid::Uuid;

pub use error::StoreError;
pub use records::{
    CachedScan, Embedder, Embedding, ImageFilter, ImageSummary, Model, ModelFile, NewFace,
    NewImage, NewScan, PageRequest, SavedScan, Source, StoredFace, StoredImage, StoredScan,
};

/// How to reach the database.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// `postgres://…`, `postgresql://…`, `sqlite://path?mode=rwc` or `sqlite::memory:`.
    pub url: SecretString,
    /// Most connections held at once, at least 1. SQLite has one more, which writes.
    pub max_connections: u32,
    /// How long a call waits for a connection, a server that is away included, before it
    /// answers [`StoreError::Unavailable`].
    pub acquire_timeout: Duration,
}

/// Stored results of one database.
///
/// Everything belongs to a tenant, and one tenant never sees or touches another's rows. Every call
/// that changes rows is one transaction: it happens wholly or, also when its future is dropped,
/// not at all. After the database was away, the next call reaches it again by itself.
#[async_trait]
pub trait Store: Send + Sync {
    /// Creates or upgrades the tables. Safe to repeat, and to run in several processes at once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database is away: call again later.
    /// [`StoreError::Schema`] when the tables come from another version of the program.
    async fn migrate(&self) -> Result<(), StoreError>;

    /// Asks the database for a sign of life.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when it gives none, [`StoreError::NotMigrated`] when it has no tables.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Records which model files answer from now on. Models already known stay as they are.
    ///
    /// # Errors
    /// As [`Store::save_scan`].
    async fn register_models(
        &self,
        models: &[Model],
        first_seen: OffsetDateTime,
    ) -> Result<(), StoreError>;

    /// Saves one picture's scan with its faces and embeddings.
    ///
    /// A picture of the same tenant and SHA-256 is reused and gains the new source. A scan with
    /// the same key that still answers the cache is kept, and returned in place of the new one;
    /// one that no longer does is replaced. Writers of the same picture wait for each other, so of
    /// two that save the same scan at once one writes and the other is given the first's.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] names the field that cannot be stored; [`StoreError::Unavailable`]
    /// when the database is away, with nothing half-written.
    async fn save_scan(&self, scan: NewScan) -> Result<SavedScan, StoreError>;

    /// The scan of this content under this key, when it may answer in place of inference.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database is away.
    async fn find_scan(
        &self,
        tenant: &str,
        sha256: &[u8; 32],
        scan_key: &[u8; 32],
    ) -> Result<Option<CachedScan>, StoreError>;

    /// Records that a stored picture was seen at a source, for an answer from the cache. False
    /// when the tenant has no such picture.
    ///
    /// # Errors
    /// As [`Store::save_scan`].
    async fn add_source(
        &self,
        tenant: &str,
        image_id: Uuid,
        source: &Source,
    ) -> Result<bool, StoreError>;

    /// A picture with its sources and scans.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database is away.
    async fn image(&self, tenant: &str, id: Uuid) -> Result<Option<StoredImage>, StoreError>;

    /// A face with its embedding.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database is away.
    async fn face(&self, tenant: &str, id: Uuid) -> Result<Option<StoredFace>, StoreError>;

    /// The tenant's pictures, newest first (by id, which carries the time). Asking for the page
    /// after the last id of the one before neither repeats nor skips a picture while others
    /// come and go.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database is away.
    async fn list_images(
        &self,
        tenant: &str,
        filter: &ImageFilter,
        page: PageRequest,
    ) -> Result<Vec<ImageSummary>, StoreError>;

    /// Erases a picture with everything derived from it. False when the tenant has no such picture.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database is away.
    async fn delete_image(&self, tenant: &str, id: Uuid) -> Result<bool, StoreError>;

    /// Erases a face with its embedding, and with the faces of the picture's other scans whose box
    /// overlaps its box by an IoU of 0.5 or more: the same face, found again. The scans touched
    /// answer the cache no longer, so an answer neither brings an erased face back nor leaves it
    /// out in silence. False when the tenant has no such face.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the database is away.
    async fn delete_face(&self, tenant: &str, id: Uuid) -> Result<bool, StoreError>;

    /// Waits for the calls under way and closes every connection. Later calls answer
    /// [`StoreError::Unavailable`].
    async fn close(&self);
}

/// Opens the store of the settings' URL. No connection is made yet, so this succeeds while a
/// Postgres server is away; the directory of a SQLite file is created.
///
/// # Errors
/// [`StoreError::Invalid`] when the URL is of another kind, cannot be read, or its directory cannot
/// be made. The message holds no part of the URL that could be secret.
pub async fn connect(settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
    let url = settings.url.expose_secret();
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "postgres" | "postgresql" => Ok(Arc::new(postgres::open(url, settings)?)),
        "sqlite" => Ok(Arc::new(sqlite::open(url, settings).await?)),
        _ => Err(StoreError::Invalid(
            "the database URL must start with `postgres://`, `postgresql://` or `sqlite://`".into(),
        )),
    }
}
