//! The audit trail: who did what, in one chain of entries for each tenant.
//!
//! The hash of an entry is the SHA-256 of the JSON text
//! `[previous_hash,tenant,number,at,request_id,key_id,action,target,details]`, without spaces. The hash of the previous entry
//! is in hex, and `at` is in microseconds since 1970. An entry that is changed, deleted or inserted later breaks the chain.

mod deletions;

use std::collections::BTreeMap;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::StoreError;
use crate::{
    batches::{from_micros, micros},
    call::{change, query},
    dialect::{Dialect, Statements, insert_rows},
    record::record,
    retention::ExpiryTimes,
    rows::TenantRow,
    sql_store::SqlStore,
    values::{Digest, Value, hex},
};

pub use deletions::{AuditDeletion, DeletionSigner};

/// The hash before the first entry of a chain.
pub const FIRST_HASH: [u8; 32] = [0; 32];

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

impl AuditEntry {
    /// Computes the hash that the entry must have.
    pub fn computed_hash(&self) -> [u8; 32] {
        hash(&self.previous_hash, self.number, &self.entry)
    }
}

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

/// The audit trail of one database.
///
/// # Errors
///
/// As for [`Store`](super::Store).
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Adds entries to the chains of their tenants.
    async fn append_audit(&self, entries: &[NewAuditEntry]) -> Result<(), StoreError>;

    /// Returns the ends of a tenant's chain. `None` if the tenant has no entries.
    async fn audit_chain(&self, tenant: &str) -> Result<Option<AuditChain>, StoreError>;

    /// Returns entries of a tenant whose number is greater than `after`, in order.
    async fn audit_entries(
        &self,
        tenant: &str,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// Returns the searches of a collection whose number is less than `before`, newest first.
    async fn audited_searches(
        &self,
        tenant: &str,
        collection: Uuid,
        (before, limit): (Option<u64>, u32),
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// Returns the tenants that have a chain, or entries without one.
    async fn audited_tenants(&self) -> Result<Vec<String>, StoreError>;

    /// Deletes at most `limit` of the oldest entries of a tenant, if they happened before `times.before`, and keeps their hashes
    /// in an [`AuditDeletion`], which `sign` signs. Returns their number.
    async fn expire_audit(
        &self,
        tenant: &str,
        page: (ExpiryTimes, u32),
        sign: &DeletionSigner<'_>,
    ) -> Result<u64, StoreError>;

    /// Returns deletions of a tenant whose first entry has a number greater than `after`, in order.
    async fn audit_deletions(
        &self,
        tenant: &str,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditDeletion>, StoreError>;
}

const CREATE_CHAIN: &str = "INSERT INTO audit_chains (tenant, deleted, deleted_hash, last, last_hash) \
     VALUES ($1, 0, $2, 0, $2) ON CONFLICT (tenant) DO NOTHING";

/// Locks the chain until the transaction ends, so that each entry has its own number.
const LOCK_CHAIN: &str = "UPDATE audit_chains SET last = last WHERE tenant = $1 \
     RETURNING deleted, deleted_hash, last, last_hash";

const CHAIN: &str =
    "SELECT deleted, deleted_hash, last, last_hash FROM audit_chains WHERE tenant = $1";

const MOVE_END: &str = "UPDATE audit_chains SET last = $2, last_hash = $3 WHERE tenant = $1";

const MOVE_START: &str =
    "UPDATE audit_chains SET deleted = $2, deleted_hash = $3 WHERE tenant = $1";

const INTO: &str = "audit_entries (tenant, number, at, request_id, key_id, action, target, details, \
     previous_hash, hash)";

const ENTRIES: &str = "SELECT tenant, number, at, request_id, key_id, action, target, details, \
     previous_hash, hash FROM audit_entries WHERE tenant = $1 AND number > $2 ORDER BY number LIMIT $3";

const SEARCHES: &str = "SELECT tenant, number, at, request_id, key_id, action, target, details, \
     previous_hash, hash FROM audit_entries WHERE tenant = $1 AND target = $2 AND action = 'search' \
     AND number < $3 ORDER BY number DESC LIMIT $4";

const DELETE: &str = "DELETE FROM audit_entries WHERE tenant = $1 AND number <= $2";

record! {
    struct ChainRow {
        deleted: i64,
        deleted_hash: Digest,
        last: i64,
        last_hash: Digest,
    }
}

record! {
    struct EntryRow {
        tenant: String,
        number: i64,
        at: i64,
        request_id: String,
        key_id: Option<String>,
        action: String,
        target: Option<String>,
        details: String,
        previous_hash: Digest,
        hash: Digest,
    }
}

record! {
    struct LinkRow {
        number: i64,
        hash: Digest,
    }
}

impl From<ChainRow> for AuditChain {
    fn from(row: ChainRow) -> Self {
        Self {
            deleted: row.deleted.try_into().unwrap_or(0),
            deleted_hash: row.deleted_hash.0,
            last: row.last.try_into().unwrap_or(0),
            last_hash: row.last_hash.0,
        }
    }
}

impl TryFrom<EntryRow> for AuditEntry {
    type Error = StoreError;

    fn try_from(row: EntryRow) -> Result<Self, StoreError> {
        let (tenant, number) = (&row.tenant, row.number);
        let damaged = || StoreError::corrupt(format!("the audit entry {number} of {tenant}"));
        Ok(Self {
            number: u64::try_from(number).map_err(|_| damaged())?,
            previous_hash: row.previous_hash.0,
            hash: row.hash.0,
            entry: NewAuditEntry {
                at: from_micros(row.at).ok_or_else(damaged)?,
                tenant: row.tenant,
                request_id: row.request_id,
                key_id: row.key_id,
                action: row.action,
                target: row.target,
                details: row.details,
            },
        })
    }
}

fn hash(previous: &[u8; 32], number: u64, entry: &NewAuditEntry) -> [u8; 32] {
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

#[async_trait]
impl<DB: Dialect> AuditStore for SqlStore<DB> {
    async fn append_audit(&self, entries: &[NewAuditEntry]) -> Result<(), StoreError> {
        change!(self, "append_audit", |connection| append(
            connection, entries
        ))
    }

    async fn audit_chain(&self, tenant: &str) -> Result<Option<AuditChain>, StoreError> {
        query!(self, "audit_chain", |connection| chain(connection, tenant))
    }

    async fn audit_entries(
        &self,
        tenant: &str,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        query!(self, "audit_entries", |connection| entries(
            connection,
            tenant,
            (after, limit)
        ))
    }

    async fn audited_searches(
        &self,
        tenant: &str,
        collection: Uuid,
        page: (Option<u64>, u32),
    ) -> Result<Vec<AuditEntry>, StoreError> {
        query!(self, "audited_searches", |connection| searches(
            connection, tenant, collection, page
        ))
    }

    async fn audited_tenants(&self) -> Result<Vec<String>, StoreError> {
        query!(self, "audited_tenants", |connection| tenants(connection))
    }

    async fn expire_audit(
        &self,
        tenant: &str,
        page: (ExpiryTimes, u32),
        sign: &DeletionSigner<'_>,
    ) -> Result<u64, StoreError> {
        change!(self, "expire_audit", |connection| deletions::expire(
            connection, tenant, page, sign
        ))
    }

    async fn audit_deletions(
        &self,
        tenant: &str,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditDeletion>, StoreError> {
        query!(self, "audit_deletions", |connection| deletions::deletions(
            connection,
            tenant,
            (after, limit)
        ))
    }
}

/// Adds entries; see [`AuditStore::append_audit`]. Run it in a transaction.
pub(super) async fn append(
    connection: &mut impl Statements,
    entries: &[NewAuditEntry],
) -> Result<(), StoreError> {
    // Every call locks the chains in the same order.
    let mut by_tenant: BTreeMap<&str, Vec<&NewAuditEntry>> = BTreeMap::new();
    for entry in entries {
        by_tenant.entry(&entry.tenant).or_default().push(entry);
    }
    for (tenant, entries) in by_tenant {
        append_to_chain(connection, tenant, &entries).await?;
    }
    Ok(())
}

async fn append_to_chain(
    connection: &mut impl Statements,
    tenant: &str,
    entries: &[&NewAuditEntry],
) -> Result<(), StoreError> {
    connection
        .execute(CREATE_CHAIN, &[&tenant, &Digest(FIRST_HASH)])
        .await?;
    let end: Option<ChainRow> = connection.fetch_optional(LOCK_CHAIN, &[&tenant]).await?;
    let end = end.ok_or_else(|| StoreError::corrupt(format!("the audit chain of {tenant}")))?;
    let (mut number, mut previous) = (end.last, end.last_hash.0);
    let mut links = Vec::with_capacity(entries.len());
    for entry in entries {
        number += 1;
        let hash = hash(&previous, number.try_into().unwrap_or(0), entry);
        links.push((number, micros(entry.at), Digest(previous), Digest(hash)));
        previous = hash;
    }
    let rows: Vec<[&dyn Value; 10]> = entries
        .iter()
        .zip(&links)
        .map(
            |(entry, (number, at, previous, hash))| -> [&dyn Value; 10] {
                [
                    &entry.tenant,
                    number,
                    at,
                    &entry.request_id,
                    &entry.key_id,
                    &entry.action,
                    &entry.target,
                    &entry.details,
                    previous,
                    hash,
                ]
            },
        )
        .collect();
    insert_rows(connection, INTO, &rows).await?;
    connection
        .execute(MOVE_END, &[&tenant, &number, &Digest(previous)])
        .await?;
    Ok(())
}

async fn chain(
    connection: &mut impl Statements,
    tenant: &str,
) -> Result<Option<AuditChain>, StoreError> {
    let row: Option<ChainRow> = connection.fetch_optional(CHAIN, &[&tenant]).await?;
    Ok(row.map(AuditChain::from))
}

async fn entries(
    connection: &mut impl Statements,
    tenant: &str,
    (after, limit): (u64, u32),
) -> Result<Vec<AuditEntry>, StoreError> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let values: [&dyn Value; 3] = [&tenant, &after, &i64::from(limit)];
    let rows: Vec<EntryRow> = connection.fetch_all(ENTRIES, &values).await?;
    rows.into_iter().map(AuditEntry::try_from).collect()
}

async fn searches(
    connection: &mut impl Statements,
    tenant: &str,
    collection: Uuid,
    (before, limit): (Option<u64>, u32),
) -> Result<Vec<AuditEntry>, StoreError> {
    let before = before.and_then(|before| i64::try_from(before).ok());
    let values: [&dyn Value; 4] = [
        &tenant,
        &collection.to_string(),
        &before.unwrap_or(i64::MAX),
        &i64::from(limit),
    ];
    let rows: Vec<EntryRow> = connection.fetch_all(SEARCHES, &values).await?;
    rows.into_iter().map(AuditEntry::try_from).collect()
}

async fn tenants(connection: &mut impl Statements) -> Result<Vec<String>, StoreError> {
    let query =
        "SELECT tenant FROM audit_chains UNION SELECT tenant FROM audit_entries ORDER BY tenant";
    let rows: Vec<TenantRow> = connection.fetch_all(query, &[]).await?;
    Ok(rows.into_iter().map(|row| row.tenant).collect())
}
