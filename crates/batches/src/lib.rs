//! Durable batches: images that are submitted now, processed by workers later, and stored exactly once.
//!
//! [`submission`] writes the images to the object store and the items to the database. [`worker`] leases chunks, processes
//! their items and saves the results. [`results`] reads them. [`webhooks`] tells others about their end. `sweeper` deletes what is no longer needed.
//!
//! The database is the only truth. A worker that dies loses its lease, and another worker processes its chunk again.

#![warn(unreachable_pub)]

mod batches;
pub mod error;
pub mod operation;
pub mod payloads;
mod permissions;
pub mod queue;
pub mod response;
pub mod results;
pub mod running;
pub mod submission;
mod sweeper;
pub mod watches;
pub mod webhooks;
pub mod worker;

pub use self::batches::Batches;
