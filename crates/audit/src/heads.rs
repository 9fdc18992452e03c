//! Heads of chains that are noted outside of the database.
//!
//! A chain whose newest entries were cut off, or that was computed anew, is a chain like any other. Only the number and the hash
//! of an entry that were noted elsewhere show the difference.

pub mod destination;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use bytes::Bytes;
use facescan_clock::Clock;
use facescan_clock::rfc3339;
use facescan_pipeline::core::image_file::{hash_from_hex, hex};
use facescan_store::Store;
use facescan_telemetry::{
    metrics::{Metrics, labels::Sweep},
    sweeps::{Sweeps, sweep_failed},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use self::destination::{DeliveryError, HeadDestination};
use super::{key::AuditKey, verify::NotedHead};

/// The head of a chain as a line of a file. Times are RFC 3339, hashes and signatures are hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadLine {
    /// The tenant.
    pub tenant: String,
    /// The number of the newest entry.
    pub number: u64,
    /// Its hash.
    pub hash: String,
    /// When the head was read.
    pub at: String,
    /// The signature of the other fields. Absent if `audit.secret` is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl HeadLine {
    /// Returns the text that is signed: a JSON list without spaces.
    fn signed_text(&self) -> String {
        json!([
            "facescan audit head",
            self.tenant,
            self.number,
            self.hash,
            self.at
        ])
        .to_string()
    }

    fn signed(self, key: Option<&AuditKey>) -> Self {
        let signature = key.map(|key| hex(&key.sign(&self.signed_text())));
        Self { signature, ..self }
    }

    /// Returns whether the line was signed with the key.
    fn is_signed_with(&self, key: &AuditKey) -> bool {
        let signature = self.signature.as_deref();
        let signature = signature.and_then(|signature| hash_from_hex(signature).ok());
        signature.is_some_and(|signature| key.verifies(&self.signed_text(), &signature))
    }

    fn noted(&self) -> Option<NotedHead> {
        let hash = hash_from_hex(&self.hash).ok()?;
        (self.number > 0).then_some(NotedHead {
            number: self.number,
            hash,
        })
    }
}

/// Heads by tenant.
pub type NotedHeads = BTreeMap<String, Vec<NotedHead>>;

/// Reads a file with heads. With a key, each line must be signed with it.
///
/// # Errors
/// Returns an error if the file cannot be read or a line is not as it was written.
pub fn read_heads(path: &Path, key: Option<&AuditKey>) -> anyhow::Result<NotedHeads> {
    let shown = path.display();
    let failed = || format!("{shown} cannot be read; pass a file that audit.heads has written");
    let mut heads = NotedHeads::new();
    let lines = BufReader::new(File::open(path).with_context(failed)?).lines();
    for (line, text) in (1..).zip(lines) {
        let text = text.with_context(failed)?;
        if text.trim().is_empty() {
            continue;
        }
        let read: Option<HeadLine> = serde_json::from_str(&text).ok();
        let read = read.and_then(|read| Some((read.noted()?, read)));
        let (head, read) = read.with_context(|| {
            format!("line {line} of {shown} is no head of an audit trail, so it was changed or cut")
        })?;
        if key.is_some_and(|key| !read.is_signed_with(key)) {
            bail!(
                "line {line} of {shown} is not signed with audit.secret, so somebody else wrote or changed it"
            );
        }
        heads.entry(read.tenant).or_default().push(head);
    }
    Ok(heads)
}

/// Delivers the heads of all chains to a place outside of the database.
pub struct HeadPublisher {
    /// The chains.
    pub store: Store,
    /// Where the heads go.
    pub destination: HeadDestination,
    /// The secret that they are signed with.
    pub key: Option<AuditKey>,
    /// The clock that they are dated by.
    pub clock: Arc<dyn Clock>,
    /// Counts failures.
    pub metrics: Metrics,
    /// The time between two deliveries.
    pub period: Duration,
    /// The numbers of the heads that were delivered.
    pub delivered: Mutex<BTreeMap<String, u64>>,
}

impl HeadPublisher {
    /// Publishes now and after each period, until `stop` is cancelled.
    pub async fn publish_until(&self, stop: CancellationToken) {
        let mut deliveries = Sweeps::new(Sweep::AuditHeads, self.period, stop, &self.metrics);
        while deliveries.next().await {
            self.publish_or_warn().await;
        }
    }

    /// Publishes. A failure is logged and counted.
    pub async fn publish_or_warn(&self) {
        if let Err(error) = self.publish().await {
            sweep_failed(&self.metrics, Sweep::AuditHeads, &error);
        }
    }

    /// Delivers the heads that have changed since the last delivery. Returns their number.
    ///
    /// # Errors
    /// [`DeliveryError`] if none of them was delivered. They are delivered later.
    pub async fn publish(&self) -> Result<usize, DeliveryError> {
        let at = self.clock.now().replace_nanosecond(0);
        let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let mut heads = BTreeMap::new();
        let mut lines = Vec::new();
        for tenant in self.store.audited_tenants().await? {
            let Some(chain) = self.store.audit_chain(&tenant).await? else {
                continue;
            };
            if chain.last == 0 || self.delivered().get(&tenant) == Some(&chain.last) {
                continue;
            }
            let line = HeadLine {
                tenant: tenant.clone(),
                number: chain.last,
                hash: hex(&chain.last_hash),
                at: rfc3339::text(at),
                signature: None,
            };
            let line = json!(line.signed(self.key.as_ref())).to_string();
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\n');
            heads.insert(tenant, chain.last);
        }
        if heads.is_empty() {
            return Ok(0);
        }
        let name = self.clock.new_id();
        self.destination.deliver(name, Bytes::from(lines)).await?;
        let count = heads.len();
        self.delivered().extend(heads);
        Ok(count)
    }

    fn delivered(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        let delivered = self.delivered.lock();
        delivered.unwrap_or_else(PoisonError::into_inner)
    }
}
