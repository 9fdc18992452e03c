//! Reading entries.

use uuid::Uuid;

use super::records::{AuditEntry, NewAuditEntry};
use crate::call::query;
use crate::error::StoreError;
use crate::record::record;
use crate::store::Store;
use crate::times::from_micros;
use crate::values::{Digest, Value};

const ENTRIES: &str = "SELECT tenant, number, at, request_id, key_id, action, target, details, \
     previous_hash, hash FROM audit_entries WHERE tenant = $1 AND number > $2 ORDER BY number LIMIT $3";

const SEARCHES: &str = "SELECT tenant, number, at, request_id, key_id, action, target, details, \
     previous_hash, hash FROM audit_entries WHERE tenant = $1 AND target = $2 AND action = 'search' \
     AND number < $3 ORDER BY number DESC LIMIT $4";

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
            let values: [&dyn Value; 3] = [&tenant, &after, &i64::from(limit)];
            let rows: Vec<EntryRow> = connection.fetch_all(ENTRIES, &values).await?;
            rows.into_iter().map(AuditEntry::try_from).collect()
        })
    }

    /// Returns the searches of a collection whose number is less than `before`, newest first.
    pub async fn audited_searches(
        &self,
        tenant: &str,
        collection: Uuid,
        page: (Option<u64>, u32),
    ) -> Result<Vec<AuditEntry>, StoreError> {
        query!(self, "audited_searches", |connection| {
            let (before, limit) = page;
            let before = before.and_then(|before| i64::try_from(before).ok());
            let values: [&dyn Value; 4] = [
                &tenant,
                &collection.to_string(),
                &before.unwrap_or(i64::MAX),
                &i64::from(limit),
            ];
            let rows: Vec<EntryRow> = connection.fetch_all(SEARCHES, &values).await?;
            rows.into_iter().map(AuditEntry::try_from).collect()
        })
    }
}

#[cfg(test)]
crate::prepared::statements!(ENTRIES, SEARCHES);
