//! Durable batches: images that an operation processes in the background.
//!
//! The items of a batch are divided into chunks. A worker leases a chunk, processes its items and finishes it. The lease
//! has a token, which grows each time that the chunk is leased. Every write of a worker names its token, so a worker that
//! lost its lease writes nothing.

mod announce;
mod claim;
mod delete;
mod finish;
mod manage;
mod outcomes;
mod read;
mod records;
mod rows;
mod submit;

pub(crate) use delete::mark_deleted;
pub use records::*;
pub(crate) use submit::finish_if_done;
