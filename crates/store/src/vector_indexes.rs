//! Searches for similar vectors inside the database, and the indexes that make them fast.

mod pgvector;
mod records;

pub use pgvector::VectorIndexes;
pub use records::*;
