//! Reading entries.

use uuid::Uuid;

use super::records::{AuditEntry, NewAuditEntry};
use crate::call::query;
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::record;
use crate::store::Store;
use crate::times::from_micros;
use crate::values::Digest;

const ENTRIES: &str = "SELECT tenant, number, at, request_id, key_id, action, target, details, \
     previous_hash, hash FROM audit_entries WHERE tenant = :tenant AND number > :after ORDER BY number LIMIT :limit";

const SEARCHES: &str = "SELECT tenant, number, at, request_id, key_id, action, target, details, \
     previous_hash, hash FROM audit_entries WHERE tenant = :tenant AND target = :collection AND action = 'search' \
     AND number < :before ORDER BY number DESC LIMIT :limit";

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

impl Store {
    /// Returns entries of a tenant whose number is greater than `after`, in order.
    pub async fn audit_entries(
        &self,
        tenant: &str,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        query!(self, "audit_entries", |connection| {
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            let values = params!(tenant, after, limit = i64::from(limit));
            let rows: Vec<EntryRow> = connection.fetch_all(ENTRIES, values).await?;
            rows.into_iter().map(AuditEntry::try_from).collect()
        })
    }

    /// Returns the searches of a collection whose number is less than `before`, newest first.
    pub async fn audited_searches(
        &self,
        tenant: &str,
        collection: Uuid,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        query!(self, "audited_searches", |connection| {
            let before = before.and_then(|before| i64::try_from(before).ok());
            let values = params!(
                tenant,
                collection = collection.to_string(),
                before = before.unwrap_or(i64::MAX),
                limit = i64::from(limit)
            );
            let rows: Vec<EntryRow> = connection.fetch_all(SEARCHES, values).await?;
            rows.into_iter().map(AuditEntry::try_from).collect()
        })
    }
}

#[cfg(test)]
crate::prepared::statements!(ENTRIES, SEARCHES);
