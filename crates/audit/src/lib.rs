//! The audit trail: who did what, in one chain of entries for each tenant.
//!
//! [`AuditLog`] records what requests do, and [`refusals`] those that were refused. [`verify`](mod@verify)
//! checks a chain, and [`heads`] notes it elsewhere. Entries have no image, no vector and no name.

#![warn(unreachable_pub)]

pub mod heads;
pub mod key;
pub mod refusals;
pub mod verify;

use std::sync::Arc;

use facescan_clock::Clock;
use facescan_config::AuditLevel;
use facescan_pipeline::{
    context::RequestContext,
    core::image_file::{ContentHash, hex},
};
use facescan_store::{NewAuditEntry, Store, StoreError};
use serde_json::{Value, json};
use thiserror::Error;
use time::OffsetDateTime;
use tokio::sync::{mpsc, oneshot};

/// The requests that can wait for the next transaction.
const MAX_WAITING: usize = 4096;

/// The most requests whose entries are written in one transaction.
const MAX_TOGETHER: usize = 256;

/// What a request did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The level from which it is recorded.
    pub level: AuditLevel,
    /// What was done.
    pub action: &'static str,
    /// What it was done to: an id, or the SHA-256 of a name.
    pub target: Option<String>,
    /// More about it.
    pub details: Value,
}

impl AuditEvent {
    /// A change of what is stored, or an export of it.
    pub fn change(action: &'static str, target: impl ToString) -> Self {
        Self {
            level: AuditLevel::Changes,
            action,
            target: Some(target.to_string()),
            details: json!({}),
        }
    }

    /// A read of one stored row.
    pub fn read(action: &'static str, target: impl ToString) -> Self {
        Self {
            level: AuditLevel::All,
            ..Self::change(action, target)
        }
    }

    /// An operation on images with these hashes. `others` is the number of images whose bytes are not known.
    pub fn images(action: &'static str, hashes: &[ContentHash], others: usize) -> Self {
        let images: Vec<String> = hashes.iter().map(|hash| hex(hash)).collect();
        Self {
            level: AuditLevel::All,
            action,
            target: None,
            details: json!({"images": images, "not_loaded": others}),
        }
    }

    /// Adds details.
    #[must_use]
    pub fn with(self, details: Value) -> Self {
        Self { details, ..self }
    }

    /// Makes the event one that is recorded whatever the settings say, if it has compared faces with those of people: no search
    /// may be unrecorded.
    #[must_use]
    pub fn with_searches(self, searches: usize) -> Self {
        match searches {
            0 => self,
            _ => Self {
                level: AuditLevel::Off,
                ..self
            },
        }
    }

    fn into_entry(self, tenant: &str, at: OffsetDateTime, request_id: String) -> NewAuditEntry {
        NewAuditEntry {
            tenant: tenant.to_owned(),
            at,
            request_id,
            key_id: None,
            action: self.action.to_owned(),
            target: self.target,
            details: self.details.to_string(),
        }
    }
}

/// Returns the entry of an event that a command of the command line causes. `None` if the level does not record it.
pub fn command_entry(
    level: AuditLevel,
    clock: &dyn Clock,
    tenant: &str,
    event: AuditEvent,
) -> Option<NewAuditEntry> {
    let id = || clock.new_id().to_string();
    (event.level <= level).then(|| event.into_entry(tenant, clock.now(), id()))
}

/// An entry cannot be written, so the request is refused.
#[derive(Debug, Error)]
#[error("the audit trail cannot be written")]
pub struct AuditError(#[source] pub Option<StoreError>);

/// Entries that wait to be written, and the request that waits for them.
type Waiting = (NewAuditEntry, oneshot::Sender<Result<(), AuditError>>);

/// Records what requests do. Cheap to clone.
#[derive(Clone)]
pub struct AuditLog {
    level: AuditLevel,
    clock: Arc<dyn Clock>,
    waiting: mpsc::Sender<Waiting>,
}

impl AuditLog {
    /// Creates an audit log. A background task writes the entries of concurrent requests in one transaction.
    pub fn start(level: AuditLevel, store: Store, clock: Arc<dyn Clock>) -> Self {
        let (waiting, receiver) = mpsc::channel(MAX_WAITING);
        tokio::spawn(write(store, receiver));
        Self {
            level,
            clock,
            waiting,
        }
    }

    /// Returns whether events of a level are recorded.
    pub fn records(&self, level: AuditLevel) -> bool {
        level <= self.level
    }

    /// Returns the entry of an event, for a call of the store that writes it together with the change. `None` if such events
    /// are not recorded.
    pub fn entry(&self, context: &RequestContext, event: AuditEvent) -> Option<NewAuditEntry> {
        let principal = &context.principal;
        self.records(event.level).then(|| NewAuditEntry {
            key_id: principal.key_id.as_deref().map(str::to_owned),
            ..event.into_entry(&principal.tenant, self.clock.now(), context.id.to_string())
        })
    }

    /// Records an event. Returns when it is written.
    ///
    /// # Errors
    /// Returns an error if the entry cannot be written.
    pub async fn record(
        &self,
        context: &RequestContext,
        event: AuditEvent,
    ) -> Result<(), AuditError> {
        let Some(entry) = self.entry(context, event) else {
            return Ok(());
        };
        let (sender, written) = oneshot::channel();
        let sent = self.waiting.send((entry, sender)).await;
        sent.map_err(|_| AuditError(None))?;
        written.await.unwrap_or(Err(AuditError(None)))
    }
}

/// Writes entries until every [`AuditLog`] is dropped.
async fn write(store: Store, mut receiver: mpsc::Receiver<Waiting>) {
    let mut together = Vec::with_capacity(MAX_TOGETHER);
    while receiver.recv_many(&mut together, MAX_TOGETHER).await > 0 {
        let (entries, senders): (Vec<_>, Vec<_>) = together.drain(..).unzip();
        // The store warns about a failed call with its cause. Every request learns of it.
        let mut failure = store.append_audit(&entries).await.err();
        let is_written = failure.is_none();
        for sender in senders {
            let result = match is_written {
                true => Ok(()),
                false => Err(AuditError(failure.take())),
            };
            // A request whose client left does not wait any more.
            sender.send(result).ok();
        }
    }
}
