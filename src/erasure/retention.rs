//! Deletes results, batches and audit entries that have been kept long enough.

use std::{sync::Arc, time::Duration};

use facescan_audit::key::AuditKey;
use facescan_clock::Clock;
use facescan_config::{AuditLevel, Config};
use facescan_store::{ExpiredResults, ExpiryTimes, NewAuditEntry, Store, StoreError};
use facescan_telemetry::{
    metrics::{Metrics, labels::Sweep},
    sweeps::Sweeps,
};
use serde_json::json;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

/// The time between two sweeps.
const PERIOD: Duration = Duration::from_secs(600);

/// The rows that one transaction deletes, so that other writers do not wait long.
const ROWS: u32 = 500;

/// Deletes what has been kept long enough. Cheap to clone.
#[derive(Clone)]
pub struct RetentionSweeper {
    /// The results and the batches in the database.
    pub store: Store,
    /// The secret that deletions from the audit trail are signed with.
    pub audit_key: Option<AuditKey>,
    /// The clock that decides what is old.
    pub clock: Arc<dyn Clock>,
    /// Counts failures.
    pub metrics: Metrics,
    /// The settings.
    pub config: Arc<Config>,
}

/// What one sweep has deleted for a tenant.
#[derive(Default, PartialEq, Eq)]
struct Expired {
    results: ExpiredResults,
    batches: u64,
    audit_entries: u64,
}

impl RetentionSweeper {
    /// Sweeps until `stop` is cancelled.
    pub async fn sweep_until(&self, stop: CancellationToken) {
        let mut sweeps = Sweeps::new(Sweep::Retention, PERIOD, stop, &self.metrics);
        while sweeps.next().await {
            sweeps.record(self.sweep().await);
        }
    }

    /// Sweeps the data of every tenant once.
    ///
    /// # Errors
    /// Returns an error of the database. The next sweep does the rest.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let mut tenants = self.store.storing_tenants().await?;
        tenants.extend(self.store.audited_tenants().await?);
        tenants.sort();
        tenants.dedup();
        for tenant in tenants {
            self.sweep_tenant(&tenant).await?;
        }
        Ok(())
    }

    /// Deletes the old data of a tenant, and records what was deleted.
    async fn sweep_tenant(&self, tenant: &str) -> Result<(), StoreError> {
        let times = self.config.retention.of(tenant);
        let now = self.clock.now();
        let mut expired = Expired::default();
        if let Some(before) = before(now, times.results) {
            expired.results = self.expire_results(tenant, before).await?;
        }
        if let Some(before) = before(now, times.payloads) {
            expired.batches = self.expire_batches(tenant, before).await?;
        }
        if let Some(before) = before(now, times.audit) {
            expired.audit_entries = self.expire_audit(tenant, before).await?;
        }
        if expired == Expired::default() {
            return Ok(());
        }
        self.record(tenant, now, expired).await
    }

    async fn expire_results(
        &self,
        tenant: &str,
        before: OffsetDateTime,
    ) -> Result<ExpiredResults, StoreError> {
        let mut all = ExpiredResults::default();
        loop {
            let now = self.clock.now();
            let times = ExpiryTimes { before, now };
            let some = self.store.expire_results(tenant, times, ROWS).await?;
            all.scans += some.scans;
            all.images += some.images;
            if some.scans == 0 {
                return Ok(all);
            }
        }
    }

    async fn expire_batches(
        &self,
        tenant: &str,
        before: OffsetDateTime,
    ) -> Result<u64, StoreError> {
        let mut all = 0;
        loop {
            match self.store.expire_batches_of(tenant, before, ROWS).await? {
                0 => return Ok(all),
                some => all += some,
            }
        }
    }

    async fn expire_audit(&self, tenant: &str, before: OffsetDateTime) -> Result<u64, StoreError> {
        let mut all = 0;
        let sign = |text: &str| self.audit_key.as_ref().map(|key| key.sign(text));
        loop {
            let now = self.clock.now();
            let times = ExpiryTimes { before, now };
            let expired = self.store.expire_audit(tenant, times, ROWS, &sign);
            match expired.await? {
                0 => return Ok(all),
                some => all += some,
            }
        }
    }

    async fn record(
        &self,
        tenant: &str,
        now: OffsetDateTime,
        expired: Expired,
    ) -> Result<(), StoreError> {
        tracing::info!(
            tenant,
            scans = expired.results.scans,
            images = expired.results.images,
            batches = expired.batches,
            audit_entries = expired.audit_entries,
            "deleted data that was kept long enough"
        );
        if self.config.audit.level < AuditLevel::Changes {
            return Ok(());
        }
        let details = json!({
            "scans": expired.results.scans,
            "images": expired.results.images,
            "batches": expired.batches,
            "audit_entries": expired.audit_entries,
        });
        let entry = NewAuditEntry {
            tenant: tenant.to_owned(),
            at: now,
            request_id: self.clock.new_id().to_string(),
            key_id: None,
            action: "expire".to_owned(),
            target: None,
            details: details.to_string(),
        };
        self.store.append_audit(&[entry]).await
    }
}

/// Returns the time before which data is too old. `None` if it is kept forever.
fn before(now: OffsetDateTime, kept: Option<Duration>) -> Option<OffsetDateTime> {
    now.checked_sub(kept?.try_into().ok()?)
}
