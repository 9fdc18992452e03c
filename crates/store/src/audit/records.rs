//! Entries and chains, as callers of the store see them.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::record::record;
use crate::times::micros;
use crate::values::hex;

/// The hash before the first entry of a chain.
pub const FIRST_HASH: [u8; 32] = [0; 32];

record! {
    /// An entry before it has a place in the chain.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NewAuditEntry {
        /// The tenant whose data the action is about.
        pub tenant: String,
        /// When it happened, to the microsecond.
        pub at: OffsetDateTime,
        /// The id of the request.
        pub request_id: String,
        /// The key of the caller. `None` if access is not controlled, or if the server acted by itself.
        pub key_id: Option<String>,
        /// What was done, such as `erase`.
        pub action: String,
        /// What it was done to: an id, or the SHA-256 of a name.
        pub target: Option<String>,
        /// More about it, as JSON text without images, vectors and names.
        pub details: String,
    }

    /// An entry of a chain.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AuditEntry {
        /// The position in the chain, from 1.
        pub number: u64,
        /// What happened.
        pub entry: NewAuditEntry,
        /// The hash of the entry before this one.
        pub previous_hash: [u8; 32],
        /// The hash of this entry.
        pub hash: [u8; 32],
    }
}

impl AuditEntry {
    /// Computes the hash that the entry must have.
    pub fn computed_hash(&self) -> [u8; 32] {
        hash(&self.previous_hash, self.number, &self.entry)
    }
}

record! {
    /// Both ends of a tenant's chain.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AuditChain {
        /// The number of the last entry that retention deleted, or 0.
        pub deleted: u64,
        /// The hash of that entry, or [`FIRST_HASH`].
        pub deleted_hash: [u8; 32],
        /// The number of the newest entry, or 0.
        pub last: u64,
        /// The hash of the newest entry, or [`FIRST_HASH`].
        pub last_hash: [u8; 32],
    }
}

/// Computes the hash of an entry; see [`crate::audit`].
pub(super) fn hash(previous: &[u8; 32], number: u64, entry: &NewAuditEntry) -> [u8; 32] {
    let text = serde_json::json!([
        hex(previous),
        entry.tenant,
        number,
        micros(entry.at),
        entry.request_id,
        entry.key_id,
        entry.action,
        entry.target,
        entry.details,
    ]);
    Sha256::digest(text.to_string()).into()
}
