//! Erasures: what was asked for, and what was erased.
//!
//! An erasure has many transactions, because objects outside the database belong to it. Its row is written first, so an
//! erasure that is interrupted is continued. Each transaction adds to the counts of the row what it has erased.

mod collections;
mod counts;
mod faces;
mod images;
mod items;
mod records;
mod rows;

pub use records::*;
