//! How long data is kept, and what is recorded about its use.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::time::Duration;

use garde::Validate;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{checks::must, masks::hidden, storage::is_tenant};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Section `audit`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Audit {
    #[garde(skip)]
    pub level: AuditLevel,
    #[garde(inner(custom(must(is_long_secret))))]
    #[serde(serialize_with = "hidden")]
    pub secret: Option<SecretString>,
    /// Serialization hides it, because it can have a secret.
    #[garde(inner(custom(must(is_heads_url))))]
    #[serde(serialize_with = "hidden")]
    pub heads: Option<SecretString>,
    #[garde(range(min = 1, max = 10_080))]
    pub heads_minutes: u64,
}

impl Audit {
    /// Returns where the heads of the chains go.
    pub fn heads_url(&self) -> Option<Url> {
        Url::parse(self.heads.as_ref()?.expose_secret()).ok()
    }

    /// Returns the time between two deliveries of heads.
    pub fn heads_period(&self) -> Duration {
        Duration::from_secs(60 * self.heads_minutes)
    }
}

/// The shortest secret, in bytes. It is as long as a signature.
const MIN_SECRET: usize = 32;

fn is_long_secret(secret: &SecretString) -> bool {
    secret.expose_secret().len() >= MIN_SECRET
}

fn is_heads_url(url: &SecretString) -> bool {
    Url::parse(url.expose_secret()).is_ok_and(|url| match url.scheme() {
        "file" => url.to_file_path().is_ok() && !url.path().ends_with('/'),
        scheme => ["s3", "gs", "az", "http", "https"].contains(&scheme) && url.has_host(),
    })
}

/// What the audit trail records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditLevel {
    /// Nothing.
    Off,
    /// Erasures, exports, and changes of keys and batches.
    Changes,
    /// Also every image that was processed and every stored result that was read.
    All,
}

/// Section `retention`. A limit of 0 is none.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Retention {
    #[garde(range(max = 36_500))]
    pub results_days: u32,
    #[garde(range(max = 36_500))]
    pub payload_days: u32,
    #[garde(range(max = 36_500))]
    pub audit_days: u32,
    #[garde(dive)]
    pub tenants: Vec<TenantRetention>,
    #[garde(range(max = 10_080))]
    pub purge_minutes: u32,
    #[garde(inner(range(max = 36_500)))]
    pub backup_days: Option<u32>,
}

/// The limits of one tenant. One that is missing is that of all tenants.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct TenantRetention {
    #[garde(length(min = 1, max = 64), custom(must(is_tenant)))]
    pub tenant: String,
    #[garde(inner(range(max = 36_500)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_days: Option<u32>,
    #[garde(inner(range(max = 36_500)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_days: Option<u32>,
    #[garde(inner(range(max = 36_500)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_days: Option<u32>,
}

/// How long the data of one tenant is kept. `None` means forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepingTimes {
    pub results: Option<Duration>,
    pub payloads: Option<Duration>,
    pub audit: Option<Duration>,
}

impl Retention {
    /// Returns how long the data of a tenant is kept.
    pub fn of(&self, tenant: &str) -> KeepingTimes {
        let own = self.tenants.iter().find(|own| own.tenant == tenant);
        let time = |own: Option<u32>, common: u32| match own.unwrap_or(common) {
            0 => None,
            days => Some(DAY * days),
        };
        KeepingTimes {
            results: time(own.and_then(|own| own.results_days), self.results_days),
            payloads: time(own.and_then(|own| own.payload_days), self.payload_days),
            audit: time(own.and_then(|own| own.audit_days), self.audit_days),
        }
    }

    /// Returns the longest time from an erasure until the files of the database are purged.
    pub fn purge_after(&self) -> Duration {
        Duration::from_secs(u64::from(self.purge_minutes) * 60)
    }

    /// Returns how long the operator keeps backups, if that is known.
    pub fn backups(&self) -> Option<Duration> {
        self.backup_days.map(|days| DAY * days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_overrides_single_limits() {
        let retention = Retention {
            results_days: 30,
            payload_days: 0,
            audit_days: 365,
            tenants: vec![TenantRetention {
                tenant: "archive".to_owned(),
                results_days: Some(0),
                payload_days: Some(1),
                audit_days: None,
            }],
            purge_minutes: 60,
            backup_days: None,
        };
        let common = retention.of("other");
        assert_eq!(common.results, Some(30 * DAY));
        assert_eq!(common.payloads, None);
        let own = retention.of("archive");
        assert_eq!(own.results, None);
        assert_eq!(own.payloads, Some(DAY));
        assert_eq!(own.audit, Some(365 * DAY));
    }
}
