//! Indexes: they find the rows of a collection that are most similar to a vector.
//!
//! An index only proposes rows. The caller reads them from the database and computes the similarity there. So an index that
//! is out of date can propose too few rows, but it cannot put an erased face or the face of another tenant into a response.

pub mod exact;
pub mod pgvector;
#[cfg(feature = "qdrant")]
pub mod qdrant;

use std::error::Error;

use async_trait::async_trait;
pub use facescan_config::IndexKind;
pub use facescan_index::Proposal;
use facescan_inference::pool::PoolError;
use facescan_store::{IndexPosition, StoreError};
use serde::Serialize;
use thiserror::Error;

/// An index cannot answer.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum IndexError {
    /// The rows cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the index does not take a vector of the collection")]
    Vector(#[source] facescan_index::IndexError),
    #[error("the index could not be searched")]
    Pool(#[from] PoolError),
    #[error("another process builds or drops an index; try again when it is done")]
    Busy,
    #[error("the server of the index cannot be used now")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

/// What is searched, and for what.
#[derive(Clone, Debug)]
pub struct IndexQuery<'a> {
    /// The collection. The index first applies the changes up to its position.
    pub collection: IndexPosition,
    /// The vectors, each of the dimension of the collection.
    pub vectors: &'a [Vec<f32>],
    /// The number of rows to propose for each vector.
    pub rows: usize,
    /// Whether every row must be compared, also if that takes longer.
    pub must_be_exact: bool,
}

/// What an index proposes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposals {
    /// The rows for each vector, the most similar ones first by approximate similarity.
    pub rows: Vec<Vec<Proposal>>,
    /// Whether every row was compared. Otherwise similar rows can be missing.
    pub is_exact: bool,
    /// The number of rows that were searched.
    pub searched: u64,
    /// The position of the collection that the index had.
    pub position: u64,
}

/// What an index has of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IndexContents {
    /// How a search uses it.
    pub state: IndexState,
    /// The number of its rows. `None` if it has none of its own, or cannot count them.
    pub rows: Option<u64>,
    /// The number of changes of the collection that it contains. `None` as for `rows`.
    pub position: Option<u64>,
    /// Its size in bytes. `None` as for `rows`.
    pub bytes: Option<u64>,
}

impl IndexContents {
    /// Returns the contents of an index that has no rows of its own.
    fn without_rows(state: IndexState) -> Self {
        Self {
            state,
            rows: None,
            position: None,
            bytes: None,
        }
    }
}

/// How a search uses what an index has of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexState {
    /// Each server has the rows in its memory and compares all of them.
    Memory,
    /// The database compares all rows.
    Scanned,
    /// The index is being built, or its building was interrupted. The database compares all rows meanwhile.
    Unfinished,
    /// The index is built and contains every change.
    Built,
    /// The index lacks changes. The next search applies them first.
    Behind,
}

/// An index of all collections.
#[async_trait]
pub trait FaceIndex: Send + Sync {
    /// Returns the kind.
    fn kind(&self) -> IndexKind;

    /// Proposes rows of a collection.
    ///
    /// # Errors
    /// Returns an error if the rows cannot be read or searched.
    async fn propose(&self, query: IndexQuery<'_>) -> Result<Proposals, IndexError>;

    /// Loads every collection, so that the first search of each does not wait.
    ///
    /// # Errors
    /// Returns an error if the rows cannot be read. A search loads the rest.
    async fn load(&self) -> Result<(), IndexError>;

    /// Brings the index up to date: it applies the changes of every loaded collection, so that the vectors of erased faces leave
    /// the memory, or it starts to build what is missing.
    ///
    /// # Errors
    /// Returns an error if the rows cannot be read. The next call tries again.
    async fn refresh(&self) -> Result<(), IndexError>;

    /// Returns what the index has of a collection.
    ///
    /// # Errors
    /// Returns an error if the database or the server of the index cannot be read.
    async fn contents(&self, collection: &IndexPosition) -> Result<IndexContents, IndexError>;

    /// Discards what the index has of a collection, and builds it again from the rows of the database.
    ///
    /// # Errors
    /// [`IndexError::Busy`] if another process builds or drops an index, or another error if the rows cannot be read or
    /// written. A search then builds what is missing, or compares all rows.
    async fn rebuild(&self, collection: &IndexPosition) -> Result<(), IndexError>;

    /// Removes the vectors of erased faces from the memory and the files of the index, as far as the index has files beside
    /// those of the database.
    ///
    /// # Errors
    /// Returns an error if the rows cannot be read or written. Call this again then.
    async fn purge(&self) -> Result<(), IndexError>;
}
