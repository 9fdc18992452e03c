//! Webhooks: addresses that are told when a batch ends, and the messages to them.

mod deliveries;
mod hosts;
mod manage;
mod records;
mod rows;

pub(crate) use deliveries::insert_deliveries;
pub(crate) use manage::{add_to_batch, lock_for_batch};
pub use records::*;
