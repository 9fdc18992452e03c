//! Collections of enrolled faces: collections, their subjects, and the vectors that searches compare.
//!
//! Erasing a collection, a subject or an enrollment is an [erasure](crate::Erasure).

mod detach;
mod enroll;
mod expire;
mod index;
mod live;
mod manage;
mod records;
mod rows;
mod subjects;

pub(crate) use detach::detach_scans;
pub(crate) use manage::{by_id, lock};
pub use records::*;
