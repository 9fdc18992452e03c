//! Libraries: collections whose faces are grouped into people, by clusterings and by users.
//!
//! Enrolling, searching and erasing faces of a library are the same as for other
//! [collections](crate::Collection).

mod assign;
mod clusterings;
mod decide;
mod read;
mod records;
mod rows;

pub use records::*;
