//! The ends of the chains, where entries are added.

use std::collections::BTreeMap;

use super::records::{AuditChain, FIRST_HASH, NewAuditEntry, hash};
use crate::call::{change, query};
use crate::connection::{Connection, insert_rows};
use crate::error::StoreError;
use crate::parameters::params;
use crate::prepared::tenants_of;
use crate::store::Store;
use crate::times::micros;
use crate::values::Value;

crate::prepared::statements! {
    const CREATE_CHAIN = "INSERT INTO audit_chains (tenant, deleted, deleted_hash, last, last_hash) \
         VALUES (:tenant, 0, :deleted_hash, 0, :deleted_hash) ON CONFLICT (tenant) DO NOTHING";

    /// Locks the chain until the transaction ends, so that each entry has its own number.
    pub(super) const LOCK_CHAIN = "UPDATE audit_chains SET last = last WHERE tenant = :tenant \
         RETURNING deleted, deleted_hash, last, last_hash";

    const CHAIN =
        "SELECT deleted, deleted_hash, last, last_hash FROM audit_chains WHERE tenant = :tenant";

    const MOVE_END =
        "UPDATE audit_chains SET last = :number, last_hash = :previous WHERE tenant = :tenant";

    const TENANTS = concat!(
        "WITH RECURSIVE ",
        tenants_of!("audit_entries" as "with_entries"),
        " SELECT tenant FROM with_entries WHERE tenant IS NOT NULL UNION SELECT tenant FROM audit_chains ORDER BY tenant"
    ), scans "one row a tenant", sorts "one row a tenant";
}

const INTO: &str = "audit_entries (tenant, number, at, request_id, key_id, action, target, details, \
     previous_hash, hash)";

impl Store {
    /// Adds entries to the chains of their tenants.
    pub async fn append_audit(&self, entries: &[NewAuditEntry]) -> Result<(), StoreError> {
        change!(self, "append_audit", |connection| {
            append(connection, entries).await
        })
    }

    /// Returns the ends of a tenant's chain. `None` if the tenant has no entries.
    pub async fn audit_chain(&self, tenant: &str) -> Result<Option<AuditChain>, StoreError> {
        query!(self, "audit_chain", |connection| {
            Ok(connection.fetch_optional(CHAIN, params!(tenant)).await?)
        })
    }

    /// Returns the tenants that have a chain, or entries without one.
    pub async fn audited_tenants(&self) -> Result<Vec<String>, StoreError> {
        query!(self, "audited_tenants", |connection| {
            Ok(connection.fetch_all(TENANTS, params!()).await?)
        })
    }
}

/// Adds entries; see [`Store::append_audit`]. Run it in a transaction.
pub(crate) async fn append(
    connection: &mut Connection<'_>,
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
    connection: &mut Connection<'_>,
    tenant: &str,
    entries: &[&NewAuditEntry],
) -> Result<(), StoreError> {
    connection
        .execute(CREATE_CHAIN, params!(tenant, deleted_hash = FIRST_HASH))
        .await?;
    let end: Option<AuditChain> = connection
        .fetch_optional(LOCK_CHAIN, params!(tenant))
        .await?;
    let end = end.ok_or_else(|| StoreError::corrupt(format!("the audit chain of {tenant}")))?;
    let (mut number, mut previous) = (end.last, end.last_hash);
    let mut links = Vec::with_capacity(entries.len());
    for entry in entries {
        number += 1;
        let hash = hash(&previous, number, entry);
        links.push((number, micros(entry.at), previous, hash));
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
        .execute(MOVE_END, params!(tenant, number, previous))
        .await?;
    Ok(())
}
