//! Exact search over quantized face vectors. No I/O, and no threads of its own.
//!
//! A [`Slab`] keeps the vectors of one collection as `i8` codes in [`Segment`]s. A [snapshot](Slab::snapshot) is what a
//! search reads while the slab changes. [`Segment::scan`] compares every row of a segment with every [`Query`] and keeps
//! the rows with the highest approximate cosine similarity in a [`TopK`] for each query. The caller scans the segments in
//! jobs of its own, merges the results, and computes the exact similarities of the proposed rows from its f32 vectors.

mod dot;
mod error;
mod query;
mod scan;
mod segment;
mod slab;
mod top;
mod vector;

#[cfg(test)]
mod tests;

pub use error::IndexError;
pub use query::Query;
pub use segment::Segment;
pub use slab::{SEGMENT_ROWS, Slab};
pub use top::{Proposal, TopK};
pub use vector::MAX_DIM;
