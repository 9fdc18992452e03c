//! Verifying and exporting the chain of a tenant.

mod deletions;

use std::fmt;

use facescan_pipeline::core::image_file::hex;
use facescan_store::{AuditChain, AuditEntry, FIRST_HASH, Store, StoreError};
use serde::Serialize;
use time::OffsetDateTime;

use super::key::AuditKey;

/// The entries that are read at a time.
const PAGE: u32 = 1000;

/// The state of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every entry is as it was written.
    Intact {
        /// The entries that were checked.
        entries: u64,
        /// The ends of the chain.
        chain: AuditChain,
    },
    /// An entry was changed, deleted or inserted.
    Broken {
        /// The number of the first entry that is not as it was written.
        number: u64,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The entry is missing.
    Missing,
    /// The entry does not continue the one before it.
    Detached,
    /// The fields do not have the entry's hash.
    Changed,
    /// The entry does not have the hash that was noted before.
    NotAsNoted,
    /// The entry was deleted, and there is no record that retention has done so.
    NotExpired,
    /// The entry was deleted, although the settings keep entries forever.
    KeptForever,
    /// The entry was noted or is left, and the tenant has no chain.
    NoChain,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Missing => "it is missing",
            Self::Detached => "it does not continue the entry before it",
            Self::Changed => "its fields were changed",
            Self::NotAsNoted => "it does not have the hash that was noted",
            Self::NotExpired => {
                "it was deleted, and no record of retention with a valid signature says so"
            }
            Self::KeptForever => {
                "it was deleted, although retention.audit_days keeps entries forever"
            }
            Self::NoChain => "the chain that it belongs to is gone",
        })
    }
}

/// An entry whose hash was noted outside of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedHead {
    /// The number of the entry, from 1.
    pub number: u64,
    /// Its hash.
    pub hash: [u8; 32],
}

/// What a chain is compared with.
#[derive(Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// The entries that were noted.
    pub heads: &'a [NotedHead],
    /// The secret that deletions are signed with. Without it, records of deletions are believed.
    pub key: Option<&'a AuditKey>,
    /// Whether the settings let retention delete entries.
    pub expires: bool,
}

impl Evidence<'_> {
    /// Returns whether an entry has each hash that was noted for it.
    fn agrees(&self, number: u64, hash: &[u8; 32]) -> bool {
        let mut noted = self.heads.iter().filter(|noted| noted.number == number);
        noted.all(|noted| noted.hash == *hash)
    }

    fn is_beyond(&self, number: u64) -> bool {
        self.heads.iter().any(|noted| noted.number > number)
    }
}

/// Checks the chain of a tenant.
///
/// Someone who can write to the database can also compute a whole chain anew. Only heads that were noted elsewhere show that.
pub async fn verify(
    store: &Store,
    tenant: &str,
    evidence: Evidence<'_>,
) -> Result<Verdict, StoreError> {
    let Some(chain) = store.audit_chain(tenant).await? else {
        return without_chain(store, tenant, evidence).await;
    };
    if let Some((number, fault)) = deletions::fault(store, tenant, (&chain, evidence)).await? {
        return Ok(broken(number, fault));
    }
    let (mut number, mut hash) = (chain.deleted, chain.deleted_hash);
    loop {
        let page = store.audit_entries(tenant, number, PAGE).await?;
        if page.is_empty() {
            break;
        }
        for entry in page {
            let fault = fault(&entry, number + 1, &hash);
            (number, hash) = (number + 1, entry.hash);
            let is_as_noted = evidence.agrees(number, &hash);
            let fault = fault.or((!is_as_noted).then_some(Fault::NotAsNoted));
            if let Some(fault) = fault {
                return Ok(broken(number, fault));
            }
        }
    }
    // Entries that were written while the chain was read do not count as missing.
    let is_short = number < chain.last;
    let is_other_end = number == chain.last && hash != chain.last_hash;
    Ok(
        match is_short || is_other_end || evidence.is_beyond(number) {
            true => broken(number + 1, Fault::Missing),
            false => Verdict::Intact {
                entries: number - chain.deleted,
                chain: AuditChain {
                    last: number,
                    last_hash: hash,
                    ..chain
                },
            },
        },
    )
}

/// Returns the verdict on a tenant without a chain.
async fn without_chain(
    store: &Store,
    tenant: &str,
    evidence: Evidence<'_>,
) -> Result<Verdict, StoreError> {
    let left = store.audit_entries(tenant, 0, 1).await?;
    let known = evidence.heads.iter().map(|noted| noted.number);
    let known = known.chain(left.iter().map(|entry| entry.number)).min();
    Ok(match known {
        Some(number) => broken(number, Fault::NoChain),
        None => Verdict::Intact {
            entries: 0,
            chain: AuditChain {
                deleted: 0,
                deleted_hash: FIRST_HASH,
                last: 0,
                last_hash: FIRST_HASH,
            },
        },
    })
}

fn broken(number: u64, fault: Fault) -> Verdict {
    Verdict::Broken { number, fault }
}

fn fault(entry: &AuditEntry, expected: u64, previous: &[u8; 32]) -> Option<Fault> {
    if entry.number != expected {
        Some(Fault::Missing)
    } else if entry.previous_hash != *previous {
        Some(Fault::Detached)
    } else if entry.computed_hash() != entry.hash {
        Some(Fault::Changed)
    } else {
        None
    }
}

/// An entry as a line of an export. Its fields are those that the hash covers, in their order.
#[derive(Clone, Debug, Serialize)]
pub struct ExportedEntry {
    previous_hash: String,
    tenant: String,
    number: u64,
    /// Microseconds since 1970.
    at: i128,
    request_id: String,
    key_id: Option<String>,
    action: String,
    target: Option<String>,
    /// JSON text.
    details: String,
    hash: String,
    /// The time again, for people.
    #[serde(with = "facescan_clock::rfc3339")]
    time: OffsetDateTime,
}

impl From<AuditEntry> for ExportedEntry {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry {
            number,
            entry,
            previous_hash,
            hash,
        } = entry;
        Self {
            previous_hash: hex(&previous_hash),
            tenant: entry.tenant,
            number,
            at: entry.at.unix_timestamp_nanos() / 1000,
            request_id: entry.request_id,
            key_id: entry.key_id,
            action: entry.action,
            target: entry.target,
            details: entry.details,
            hash: hex(&hash),
            time: entry.at,
        }
    }
}

/// Calls `each` for every entry of a tenant in order.
///
/// # Errors
/// Returns an error of the database or of `each`.
pub async fn export<E: From<StoreError>>(
    store: &Store,
    tenant: &str,
    mut each: impl FnMut(ExportedEntry) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = 0;
    loop {
        let page = store.audit_entries(tenant, after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.number;
        for entry in page {
            each(entry.into())?;
        }
    }
}
