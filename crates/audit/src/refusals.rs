//! Requests that were refused because of who sent them.
//!
//! A flood of wrong keys must not fill the database, so refusals are counted and written once a minute: one entry for each key,
//! and one for all callers without a valid one. No entry has a credential.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use facescan_clock::Clock;
use facescan_config::AuditLevel;
use facescan_pipeline::context::{Principal, RequestId};
use facescan_store::{NewAuditEntry, Store, StoreError};
use serde_json::json;
use time::OffsetDateTime;

/// The time between two transactions with refusals.
const PERIOD: Duration = Duration::from_secs(60);

/// The most keys with an entry of their own. Refusals of further ones are counted with those of unknown callers.
const MAX_KEYS: usize = 1000;

/// The most routes that an entry names.
const MAX_ROUTES: usize = 10;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// It has no valid credential.
    Unauthorized,
    /// Its caller may not do what it asks for, or the request does not come from this machine.
    Forbidden,
}

/// A refused request.
#[derive(Debug)]
pub struct RefusedRequest<'a> {
    /// Who sent it. `None` without a valid credential.
    pub principal: Option<&'a Principal>,
    /// Why it was refused.
    pub kind: RefusalKind,
    /// Its id.
    pub id: &'a RequestId,
    /// Its method and its route, such as `GET /images/{id}`.
    pub route: &'a str,
}

/// Records refused requests.
pub struct RefusalLog {
    level: AuditLevel,
    /// The tenant whose trail has the refusals of callers without a valid credential.
    tenant: Arc<str>,
    store: Store,
    clock: Arc<dyn Clock>,
    waiting: Mutex<Waiting>,
}

/// The refusals that are not written yet, by tenant and key.
type Waiting = BTreeMap<(Arc<str>, Option<Arc<str>>), Refusals>;

/// The refusals of one caller.
#[derive(Debug)]
struct Refusals {
    since: OffsetDateTime,
    first_request: RequestId,
    unauthorized: u64,
    forbidden: u64,
    routes: BTreeSet<String>,
}

impl RefusalLog {
    /// Creates a log. A background task writes to it until it is dropped. `tenant` gets the refusals of unknown callers.
    pub fn start(
        level: AuditLevel,
        tenant: &str,
        store: Store,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let log = Arc::new(Self {
            level,
            tenant: tenant.into(),
            store,
            clock,
            waiting: Mutex::default(),
        });
        tokio::spawn(write_every_period(Arc::downgrade(&log)));
        log
    }

    /// Counts a refused request. It is written within a minute.
    pub fn add(&self, refused: &RefusedRequest<'_>) {
        if self.level < AuditLevel::Changes {
            return;
        }
        let now = self.clock.now();
        let mut waiting = self.waiting();
        let own = refused
            .principal
            .map(|principal| (Arc::clone(&principal.tenant), principal.key_id.clone()));
        let of_unknown = || (Arc::clone(&self.tenant), None);
        let key = own
            .filter(|key| waiting.len() < MAX_KEYS || waiting.contains_key(key))
            .unwrap_or_else(of_unknown);
        let refusals = waiting.entry(key).or_insert_with(|| Refusals {
            since: now,
            first_request: refused.id.clone(),
            unauthorized: 0,
            forbidden: 0,
            routes: BTreeSet::new(),
        });
        match refused.kind {
            RefusalKind::Unauthorized => refusals.unauthorized += 1,
            RefusalKind::Forbidden => refusals.forbidden += 1,
        }
        if refusals.routes.len() < MAX_ROUTES && !refusals.routes.contains(refused.route) {
            refusals.routes.insert(refused.route.to_owned());
        }
    }

    /// Writes what is counted.
    ///
    /// # Errors
    /// Returns an error of the database. The counts are written later.
    pub async fn write(&self) -> Result<(), StoreError> {
        let waiting = mem::take(&mut *self.waiting());
        if waiting.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let entries = waiting.iter().map(|((tenant, key), refusals)| {
            refusals.entry(now, tenant.to_string(), key.as_deref().map(str::to_owned))
        });
        let written = self.store.append_audit(&entries.collect::<Vec<_>>()).await;
        if written.is_err() {
            self.put_back(waiting);
        }
        written
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_back(&self, unwritten: Waiting) {
        let mut waiting = self.waiting();
        for (key, before) in unwritten {
            match waiting.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(before);
                }
                Entry::Occupied(mut later) => later.get_mut().precede(before),
            }
        }
    }
}

async fn write_every_period(log: Weak<RefusalLog>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(log) = log.upgrade() else { return };
        // The store warns about a failed call with its cause.
        log.write().await.ok();
    }
}

impl Refusals {
    fn entry(&self, at: OffsetDateTime, tenant: String, key_id: Option<String>) -> NewAuditEntry {
        let details = json!({
            "unauthorized": self.unauthorized,
            "forbidden": self.forbidden,
            "since": facescan_clock::rfc3339::text(self.since),
            "routes": self.routes,
        });
        NewAuditEntry {
            tenant,
            at,
            request_id: self.first_request.to_string(),
            key_id,
            action: "refuse_requests".to_owned(),
            target: None,
            details: details.to_string(),
        }
    }

    /// Adds refusals that came before these.
    fn precede(&mut self, before: Self) {
        self.since = before.since;
        self.first_request = before.first_request;
        self.unauthorized += before.unauthorized;
        self.forbidden += before.forbidden;
        self.routes.extend(before.routes);
    }
}
