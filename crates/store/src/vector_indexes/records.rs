//! Searches and indexes, as callers of the store see them.

use uuid::Uuid;

/// The greatest dimension of vectors that can have an index.
pub const MAX_INDEXED_DIM: u32 = 4000;

/// The nearest rows that are looked for.
#[derive(Clone, Copy, Debug)]
pub struct NearestRows<'a> {
    /// The collection.
    pub collection: Uuid,
    /// The length of its vectors, at most [`MAX_INDEXED_DIM`] with `candidates`.
    pub dim: u32,
    /// The vectors, each of this length.
    pub vectors: &'a [Vec<f32>],
    /// The most rows for each vector.
    pub rows: u32,
    /// The candidates that a search in the index of the collection keeps, or more if more rows are looked for. With more
    /// candidates, fewer similar rows are missing. `None` if every row is compared, as it also is without an index.
    pub candidates: Option<u32>,
}

/// A row, and its similarity to a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearRow {
    /// The row.
    pub row: u64,
    /// The product of the two vectors. If an index found the row, it is computed from 16-bit values.
    pub similarity: f32,
}

/// The rows that are near some vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NearRows {
    /// The rows for each vector, the most similar ones first.
    pub rows: Vec<Vec<NearRow>>,
    /// Whether every row of the collection was compared.
    pub is_exact: bool,
}

/// The index of a collection in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorIndex {
    /// The collection, which may no longer exist.
    pub collection: Uuid,
    /// Whether it is complete. An index that is being built is not, and neither is one whose building was interrupted.
    pub is_built: bool,
    /// The size in bytes.
    pub bytes: u64,
}

/// The graph of an index, in which each vector is linked to similar ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The links of a vector in each layer above the lowest, which has twice as many: 2 to 100. More of them find more similar
    /// rows and take more space. pgvector calls it `m`.
    pub links: u32,
    /// The candidates for the links of a vector, at most 1000. At least twice `links` are used. With more, the links are better
    /// and the index is built later. pgvector calls it `ef_construction`.
    pub build_candidates: u32,
}

/// The result of a call that builds or drops an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexWork {
    /// The index is built, or dropped.
    Done,
    /// Another process builds or drops an index of this database. Nothing was done.
    Busy,
}
