//! Stored results (images, scans, faces and vectors), durable batches, and what belongs to them, in Postgres or SQLite.
//!
//! [`Store`] is the store of one database. Each noun has a room with its methods, its records and its SQL:
//!
//! | room | what it stores |
//! |---|---|
//! | `scans` | images, scans, faces, vectors, sources, models |
//! | `batches` | batches, their items and chunks, and the leases of workers |
//! | `webhooks` | addresses that are told when a batch ends, and the messages to them |
//! | `collections` | enrolled faces with their subjects, and what an index of vectors reads |
//! | `libraries` | people, and clusterings |
//! | `vector_indexes` | searches of vectors inside Postgres |
//! | `keys`, `search_quotas` | keys of the API, and how often they have searched |
//! | `audit` | who did what |
//! | `erasures`, `retention`, `purge` | what is deleted on request, what is deleted by age, and the bytes that this leaves |
//!
//! The SQL text is the same for both databases. They differ only in `postgres.rs`, in `sqlite.rs`, in the value types of
//! `values.rs` and in the migrations. `connection.rs` runs statements on either of them, `parameters.rs` gives their parameters by
//! name, `record.rs` reads their rows, and `call.rs` runs the statements of one call.

mod audit;
mod batches;
mod call;
mod collections;
mod connection;
mod dialect;
mod erasures;
mod error;
mod first_connection;
mod gathered;
mod json_text;
mod keys;
mod last_failure;
mod libraries;
mod migrations;
mod named;
mod notifications;
mod observer;
mod pages;
mod parameters;
mod pools;
mod postgres;
mod prepared;
mod purge;
mod record;
mod retention;
mod scans;
mod schema;
mod search_quotas;
mod settings;
mod sizes;
mod sqlite;
mod store;
mod times;
mod values;
mod vector_indexes;
mod webhooks;

pub use audit::{AuditChain, AuditDeletion, AuditEntry, DeletionSigner, FIRST_HASH, NewAuditEntry};
pub use batches::{
    AddedItems, Batch, BatchCounts, BatchFilter, BatchKey, BatchState, CancelledBatch, ChunkEnd,
    ClaimRequest, CompleteRequest, CreatedBatch, Deletion, FinishedItems, Item, ItemFilter,
    ItemList, ItemOutcome, ItemPage, ItemResult, ItemState, Lease, LeasedChunk, LeasedItem,
    MAX_MODELS_KEYS, NewBatch, NewItem, NewItems, QueueDepth, ReadyChunk, ScanOutcome,
};
pub use collections::{
    Changed, Collection, CollectionKey, CollectionKind, CollectionSize, CollectionTerms, Consent,
    Enrolled, Enrollment, IndexChange, IndexPosition, IndexRow, LiveRow, NewEnrollment, Subject,
    SubjectChange, SubjectDetails, TermsChange, Written,
};
pub use erasures::{
    ErasedCounts, Erasure, ErasureTarget, ImageToErase, ItemErasure, ItemToErase, NewErasure,
};
pub use error::StoreError;
pub use first_connection::ConnectionError;
pub use json_text::{JsonText, has_nul};
pub use keys::ApiKey;
pub use libraries::{
    Assignment, Clustering, ClusteringEnd, ClusteringProgress, ClusteringState, Decided, Decision,
    FaceFilter, FaceRow, LeasedClustering, LibraryFace, Membership, NewClustering, Person,
};
pub use notifications::ChunkNotifications;
pub use observer::{Observer, StoreMetrics};
pub use pages::PageRequest;
pub use pools::ConnectionCounts;
pub use retention::ExpiredResults;
pub use scans::{
    CachedScan, Embedder, Embedding, ImageEmbedding, ImageFilter, ImageSummary, Model, ModelFile,
    NewFace, NewImage, NewScan, SavedScan, ScanPage, ScanRecord, Source, StoredFace, StoredImage,
    StoredScan, check_scan,
};
pub use search_quotas::{SearchCount, Searcher, TakenSearches};
pub use settings::StoreSettings;
pub use store::Store;
pub use times::ExpiryTimes;
pub use vector_indexes::{
    Graph, IndexWork, MAX_INDEXED_DIM, NearRow, NearRows, NearestRows, VectorIndex, VectorIndexes,
};
pub use webhooks::{
    AttemptEnd, AttemptFailure, AttemptResult, BatchWebhook, DueDelivery, HostFailure, OldSecret,
    SecretRotation, TakeDeliveries, TakenDeliveries, Webhook, WebhookEvent, WebhookHealth,
    WebhookHost,
};
