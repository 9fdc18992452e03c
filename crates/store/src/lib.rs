//! Stored results (images, scans, faces and embeddings) and durable batches, in Postgres or SQLite.
//!
//! [`open`] opens the database that a URL names. The scheme of the URL decides which of the two it is.
//!
//! The logic is written once, over `dialect::Statements`, and the SQL text is the same for both databases. They differ
//! only in `postgres.rs`, in `sqlite.rs`, in the value types of `values.rs` and in the migrations.

mod api_keys;
mod audit;
mod batches;
mod call;
mod collections;
mod delete;
mod dialect;
mod erasures;
mod error;
mod json_text;
mod libraries;
mod migrations;
mod notifications;
mod observer;
mod postgres;
mod read;
mod record;
mod records;
mod retention;
mod rows;
mod save;
mod schema;
mod search_quotas;
mod sizes;
mod sql_store;
mod sqlite;
mod values;
mod vector_indexes;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;
use uuid::Uuid;

use dialect::Dialect;
use sql_store::SqlStore;

pub use api_keys::{ApiKey, ApiKeyStore};
pub use audit::{
    AuditChain, AuditDeletion, AuditEntry, AuditStore, DeletionSigner, FIRST_HASH, NewAuditEntry,
};
pub use batches::{
    AddedItems, Batch, BatchCounts, BatchFilter, BatchKey, BatchPage, BatchState, BatchStore,
    CancelledBatch, ChunkEnd, ClaimRequest, CompleteRequest, CreatedBatch, Deletion, FinishedItems,
    Item, ItemFilter, ItemList, ItemOutcome, ItemPage, ItemResult, ItemState, Lease, LeasedChunk,
    LeasedItem, MAX_MODELS_KEYS, NewBatch, NewItem, NewItems, QueueDepth, ReadyChunk, ScanOutcome,
};
pub use collections::{
    Changed, Collection, CollectionKey, CollectionKind, CollectionSize, CollectionStore,
    CollectionTerms, Consent, Enrolled, Enrolment, IndexChange, IndexPosition, IndexRow, LiveRow,
    NewEnrolment, Subject, SubjectChange, SubjectDetails, TermsChange, Written,
};
pub use erasures::{
    ErasedCounts, Erasure, ErasureStore, ErasureTarget, ImageToErase, ItemErasure, ItemToErase,
    NewErasure,
};
pub use error::StoreError;
pub use json_text::{JsonText, has_nul};
pub use libraries::{
    Assignment, Clustering, ClusteringEnd, ClusteringProgress, ClusteringState, Decided, Decision,
    FaceFilter, FaceRow, LeasedClustering, LibraryFace, LibraryStore, Membership, NewClustering,
    Person,
};
pub use notifications::ChunkNotifications;
pub use observer::{Observer, StoreMetrics};
pub use records::{
    CachedScan, Embedder, Embedding, ImageEmbedding, ImageFilter, ImageSummary, Model, ModelFile,
    NewFace, NewImage, NewScan, PageRequest, SavedScan, ScanPage, Source, StoredFace, StoredImage,
    StoredScan,
};
pub use retention::{ExpiredResults, ExpiryTimes, RetentionStore};
pub use save::check_scan;
pub use search_quotas::{SearchCount, SearchQuotaStore, Searcher, TakenSearches};
pub use vector_indexes::{
    Graph, IndexWork, MAX_INDEXED_DIM, NearRow, NearRows, NearestRows, VectorIndex,
    VectorIndexStore,
};
pub use webhooks::{
    AttemptEnd, AttemptFailure, AttemptResult, BatchWebhook, DueDelivery, HostFailure, OldSecret,
    SecretRotation, TakeDeliveries, TakenDeliveries, Webhook, WebhookEvent, WebhookHealth,
    WebhookHost, WebhookStore,
};

/// The settings of the database connection.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// `postgres://…`, `postgresql://…`, `sqlite://path?mode=rwc` or `sqlite::memory:`.
    pub url: SecretString,
    /// The maximum number of connections that are open at once, at least 1. SQLite has one more, for writing.
    pub max_connections: u32,
    /// How long a call waits for a connection before it returns [`StoreError::Unavailable`]. The wait includes the time
    /// to connect to a server that does not answer.
    pub acquire_timeout: Duration,
    /// How long a call may take, with the wait for a connection, before it returns [`StoreError::Unavailable`]. Calls whose
    /// time depends on the number of stored rows have no limit: migrations, and changes to all items of a batch.
    pub call_timeout: Duration,
}

/// The number of connections to the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connections that are open, idle ones included.
    pub open: usize,
    /// Connections that no call uses.
    pub idle: usize,
}

/// The stored results of one database.
///
/// Every row belongs to a tenant. A call for one tenant neither sees nor changes the rows of another.
///
/// # Cached scans
///
/// A scan can be returned from the cache if it was saved with `answers_cache` and none of its faces was deleted.
///
/// # Transactions
///
/// Each call that changes rows is one transaction. Either all of its changes are made or none. Dropping the future
/// before it resolves makes none of them, unless the commit was already sent.
///
/// # Errors
///
/// Every method returns [`StoreError::Unavailable`] if the database is unavailable, and [`StoreError::NotMigrated`] if its
/// tables do not exist. Both can be temporary. The next call tries again. Methods that read return [`StoreError::Corrupt`]
/// if a stored value cannot be read. Each method lists what else it returns.
///
/// # Tables of another version
///
/// Methods that change rows return [`StoreError::Schema`], and change nothing, if the tables belong to another version of the
/// program. Each call checks it in its own transaction, because other processes upgrade the tables at any time. Methods that
/// read go on, and return the same error if the tables do not have what they read.
///
/// # Adding a method
///
/// Add it to this trait and to `SqlStore`. Its queries belong in `read.rs` or `save.rs`.
#[async_trait]
pub trait Store: Send + Sync {
    /// Creates the tables, or upgrades them to this version of the program.
    ///
    /// It is safe to call this again, and to call it from several processes at once.
    ///
    /// # Errors
    ///
    /// [`StoreError::Schema`] when another version of the program made the tables.
    async fn migrate(&self) -> Result<(), StoreError>;

    /// Checks that the database answers and has the tables of this version of the program.
    ///
    /// # Errors
    ///
    /// [`StoreError::Schema`] when another version of the program made the tables.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Records the models whose results are stored from now on.
    ///
    /// A model that is recorded already keeps its row and its `first_seen`.
    async fn register_models(
        &self,
        models: &[Model],
        first_seen: OffsetDateTime,
    ) -> Result<(), StoreError>;

    /// Saves the scan of one image, with its faces and embeddings.
    ///
    /// If the tenant already has an image with this SHA-256, the scan is added to that image, and so is the source.
    ///
    /// If that image already has a scan with this key, and that scan can be returned from the cache, the call returns it
    /// and writes nothing. Otherwise the new scan replaces it.
    ///
    /// Calls for the same image wait for each other. When two calls save the same scan at once, one writes it and the
    /// other returns it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] when a value cannot be stored. The message names the field.
    async fn save_scan(&self, scan: NewScan) -> Result<SavedScan, StoreError>;

    /// Returns the scan with this key of the image with this SHA-256, if that scan can be returned from the cache.
    async fn find_scan(
        &self,
        tenant: &str,
        sha256: &[u8; 32],
        scan_key: &[u8; 32],
    ) -> Result<Option<CachedScan>, StoreError>;

    /// Returns the ids of scans with this key that can be returned from the cache, each with the SHA-256 of its image. It
    /// looks only for images with these SHA-256s.
    async fn cached_scan_ids(
        &self,
        tenant: &str,
        scan_key: &[u8; 32],
        sha256s: &[[u8; 32]],
    ) -> Result<Vec<([u8; 32], Uuid)>, StoreError>;

    /// Returns the tenant's scans with these ids, in any order. Ids without a scan are skipped.
    async fn scans(&self, tenant: &str, ids: &[Uuid]) -> Result<Vec<CachedScan>, StoreError>;

    /// Records that a request was answered with a scan. The scan then stays when the batch that made it is deleted.
    async fn keep_scan(&self, scan: Uuid) -> Result<(), StoreError>;

    /// Records that a stored image was seen at a source.
    ///
    /// A source that the image already has gets the new time. Returns false if the tenant has no such image.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] when the source cannot be stored. The message names the field.
    async fn add_source(
        &self,
        tenant: &str,
        image_id: Uuid,
        source: &Source,
    ) -> Result<bool, StoreError>;

    /// Returns an image with its newest sources and one page of its scans.
    async fn image(
        &self,
        tenant: &str,
        id: Uuid,
        scans: ScanPage,
    ) -> Result<Option<StoredImage>, StoreError>;

    /// Returns a face with its embedding.
    async fn face(&self, tenant: &str, id: Uuid) -> Result<Option<StoredFace>, StoreError>;

    /// Returns one page of the tenant's images, newest first.
    ///
    /// The order is that of the ids, which begin with a time. To get the next page, pass the last id of this one. Pages
    /// neither repeat nor skip an image while other images are added and deleted.
    async fn list_images(
        &self,
        tenant: &str,
        filter: &ImageFilter,
        page: PageRequest,
    ) -> Result<Vec<ImageSummary>, StoreError>;

    /// Returns the number of connections now.
    fn connections(&self) -> ConnectionCounts;

    /// Waits for the calls in progress and closes every connection.
    ///
    /// Later calls return [`StoreError::Unavailable`].
    async fn close(&self);
}

/// The stores of one database. They share its connections.
#[derive(Clone)]
pub struct Stores {
    /// Scans, images, faces and vectors.
    pub scans: Arc<dyn Store>,
    /// Durable batches.
    pub batches: Arc<dyn BatchStore>,
    /// Collections of enrolled faces.
    pub collections: Arc<dyn CollectionStore>,
    /// People of libraries, and clusterings.
    pub libraries: Arc<dyn LibraryStore>,
    /// Keys of the API.
    pub keys: Arc<dyn ApiKeyStore>,
    /// The audit trail.
    pub audit: Arc<dyn AuditStore>,
    /// How often callers have searched.
    pub search_quotas: Arc<dyn SearchQuotaStore>,
    /// Erasures.
    pub erasures: Arc<dyn ErasureStore>,
    /// Results and batches that are too old.
    pub retention: Arc<dyn RetentionStore>,
    /// Webhooks, and the messages to them.
    pub webhooks: Arc<dyn WebhookStore>,
    /// Wakes the workers of other processes. `None` if one process has the database for itself.
    pub notifications: Option<Arc<dyn ChunkNotifications>>,
    /// Searches for similar vectors inside the database. `None` if the database cannot compare vectors.
    pub vector_indexes: Option<Arc<dyn VectorIndexStore>>,
}

impl Stores {
    fn of<DB: Dialect>(store: Arc<SqlStore<DB>>) -> Self {
        Self {
            scans: Arc::clone(&store) as Arc<dyn Store>,
            batches: Arc::clone(&store) as Arc<dyn BatchStore>,
            collections: Arc::clone(&store) as Arc<dyn CollectionStore>,
            libraries: Arc::clone(&store) as Arc<dyn LibraryStore>,
            keys: Arc::clone(&store) as Arc<dyn ApiKeyStore>,
            audit: Arc::clone(&store) as Arc<dyn AuditStore>,
            search_quotas: Arc::clone(&store) as Arc<dyn SearchQuotaStore>,
            erasures: Arc::clone(&store) as Arc<dyn ErasureStore>,
            retention: Arc::clone(&store) as Arc<dyn RetentionStore>,
            webhooks: store,
            notifications: None,
            vector_indexes: None,
        }
    }
}

/// Opens the database that the settings name.
///
/// This does not connect, so it succeeds while a Postgres server is unavailable. It creates the directory of a SQLite file.
///
/// # Errors
///
/// [`StoreError::Invalid`] when the URL has an unknown scheme, [`StoreError::Url`] when it cannot be read, and
/// [`StoreError::Directory`] when the directory cannot be created. No message contains the user or the password.
pub async fn open(settings: &StoreSettings, observer: Observer) -> Result<Stores, StoreError> {
    let url = settings.url.expose_secret();
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "postgres" | "postgresql" => {
            let (store, notifications) = postgres::open(url, settings, observer)?;
            let store = Arc::new(store);
            Ok(Stores {
                notifications: Some(Arc::new(notifications)),
                vector_indexes: Some(Arc::clone(&store) as Arc<dyn VectorIndexStore>),
                ..Stores::of(store)
            })
        }
        "sqlite" => {
            let store = sqlite::open(url, settings, observer)?;
            Ok(Stores::of(Arc::new(store)))
        }
        _ => Err(StoreError::Invalid(
            "the database URL must start with `postgres://`, `postgresql://` or `sqlite:`".into(),
        )),
    }
}
