//! The audit trail: who did what, in one chain of entries for each tenant.
//!
//! The hash of an entry is the SHA-256 of the JSON text
//! `[previous_hash,tenant,number,at,request_id,key_id,action,target,details]`, without spaces. The hash of the previous entry
//! is in hex, and `at` is in microseconds since 1970. An entry that is changed, deleted or inserted later breaks the chain.

mod chain;
mod deletions;
mod entries;
mod records;

pub(crate) use chain::append;
pub use deletions::{AuditDeletion, DeletionSigner};
pub use records::*;
