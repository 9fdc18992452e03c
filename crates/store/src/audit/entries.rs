//! Reading entries.

use uuid::Uuid;

use super::records::AuditEntry;
use crate::call::query;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;

crate::prepared::statements! {
    const ENTRIES = "SELECT tenant, number, at, request_id, key_id, action, target, details, \
         previous_hash, hash FROM audit_entries WHERE tenant = :tenant AND number > :after ORDER BY number LIMIT :limit";

    const SEARCHES = "SELECT tenant, number, at, request_id, key_id, action, target, details, \
         previous_hash, hash FROM audit_entries WHERE tenant = :tenant AND target = :collection AND action = 'search' \
         AND number < :before ORDER BY number DESC LIMIT :limit";
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
            let values = params!(tenant, after, limit);
            Ok(connection.fetch_all(ENTRIES, values).await?)
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
            let values = params!(
                tenant,
                collection = collection.to_string(),
                before = before.unwrap_or(u64::MAX),
                limit
            );
            Ok(connection.fetch_all(SEARCHES, values).await?)
        })
    }
}
