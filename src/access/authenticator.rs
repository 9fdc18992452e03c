//! Turns the credential of a request into a principal.

use std::{collections::HashMap, sync::Arc, time::Duration};

use facescan_clock::Clock;
use facescan_config::{Config, ConfiguredKey, scope::Scope};
use facescan_pipeline::context::Principal;
use facescan_store::{ApiKey, Store, StoreError};
use time::OffsetDateTime;

use super::{error::AccessError, key_cache::KeyCache, openid::OpenId, secret::SentKey};

/// The last use of a key is recorded at most this often.
const RECORD_USE_EVERY: Duration = Duration::from_secs(60);

/// Authenticates requests.
pub struct Authenticator {
    /// `None` if every caller is allowed everything.
    keys: Option<Keys>,
    /// The principal of callers without a credential, if they are allowed.
    local: Principal,
}

/// The keys that are accepted.
struct Keys {
    configured: HashMap<String, ConfiguredKey>,
    stored: KeyCache,
    store: Store,
    clock: Arc<dyn Clock>,
    openid: Option<OpenId>,
}

impl Authenticator {
    /// Creates the authenticator that the settings ask for.
    ///
    /// # Errors
    /// The errors of [`OpenId::from_settings`].
    pub fn new(config: &Config, store: Store, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let (access, tenant) = (&config.access, &config.store.tenant);
        let openid = OpenId::from_settings(&config.openid, tenant, Arc::clone(&clock))?;
        let keys = config.requires_keys().then(|| Keys {
            configured: access
                .keys
                .iter()
                .map(|key| (key.id.clone(), key.clone()))
                .collect(),
            stored: KeyCache::new(store.clone(), Arc::clone(&clock), access.key_cache()),
            store,
            clock,
            openid,
        });
        Ok(Self {
            keys,
            local: Principal::of_tenant(tenant),
        })
    }

    /// Returns the principal of a request with this credential.
    ///
    /// # Errors
    /// Returns [`AccessError::NoCredential`] or [`AccessError::InvalidCredential`] if access is controlled, or an error of the
    /// database.
    pub async fn authenticate(&self, credential: Option<&str>) -> Result<Principal, AccessError> {
        let Some(keys) = &self.keys else {
            return Ok(self.local.clone());
        };
        let sent = credential.ok_or(AccessError::NoCredential)?;
        if let Some(openid) = keys.openid.as_ref().filter(|_| OpenId::is_token(sent)) {
            return openid.principal(sent).await;
        }
        let sent = SentKey::parse(sent).ok_or(AccessError::InvalidCredential)?;
        let found = keys.principal(&sent).await?;
        found.ok_or(AccessError::InvalidCredential)
    }

    /// Returns whether somebody could use the server: access is not controlled, or there is a key.
    ///
    /// # Errors
    /// Returns an error of the database.
    pub async fn is_usable(&self) -> Result<bool, StoreError> {
        match &self.keys {
            None => Ok(true),
            Some(keys) if keys.openid.is_some() => Ok(true),
            Some(keys) => {
                let now = keys.clock.now();
                let mut configured = keys.configured.values();
                let is_configured = configured.any(|key| !is_over(key.expires_at, now));
                Ok(is_configured || keys.store.has_valid_key(now).await?)
            }
        }
    }

    /// Forgets what is known about a key, so that its revocation holds at once in this process.
    pub fn forget(&self, id: &str) {
        if let Some(keys) = &self.keys {
            keys.stored.forget(id);
        }
    }
}

impl Keys {
    async fn principal(&self, sent: &SentKey<'_>) -> Result<Option<Principal>, StoreError> {
        let now = self.clock.now();
        if let Some(key) = self.configured.get(sent.id) {
            let is_valid = sent.has_digest(&key.sha256.0) && !is_over(key.expires_at, now);
            return Ok(is_valid.then(|| configured_principal(key)));
        }
        let (key, was_read) = self.stored.key(sent.id).await?;
        let key = key.filter(|key| sent.has_digest(&key.digest) && is_valid(key, now));
        if let Some(key) = key.as_ref().filter(|_| was_read) {
            self.record_use(key, now);
        }
        Ok(key.map(|key| stored_principal(&key)))
    }

    /// Records the use of a key in the background.
    fn record_use(&self, key: &ApiKey, now: OffsetDateTime) {
        let is_recent = |last: OffsetDateTime| now - last < RECORD_USE_EVERY;
        if key.last_used_at.is_some_and(is_recent) {
            return;
        }
        let (store, id) = (self.store.clone(), key.id.clone());
        // The store warns about a failed call, and the next use records the time again.
        tokio::spawn(async move { store.record_key_use(&id, now).await.ok() });
    }
}

fn is_valid(key: &ApiKey, now: OffsetDateTime) -> bool {
    key.revoked_at.is_none() && !is_over(key.expires_at, now)
}

fn is_over(expires_at: Option<OffsetDateTime>, now: OffsetDateTime) -> bool {
    expires_at.is_some_and(|end| end <= now)
}

fn configured_principal(key: &ConfiguredKey) -> Principal {
    Principal {
        tenant: key.tenant.as_str().into(),
        key_id: Some(key.id.as_str().into()),
        scopes: key.scopes.iter().copied().collect(),
    }
}

fn stored_principal(key: &ApiKey) -> Principal {
    Principal {
        tenant: key.tenant.as_str().into(),
        key_id: Some(key.id.as_str().into()),
        scopes: Scope::of_names(key.scopes.iter().map(String::as_str)),
    }
}

/// Checks that a principal has a scope.
///
/// # Errors
/// Returns [`AccessError::MissingScope`] if it does not have it.
pub fn require(principal: &Principal, scope: Scope) -> Result<(), AccessError> {
    if principal.scopes.contains(&scope) {
        Ok(())
    } else {
        Err(AccessError::MissingScope(scope))
    }
}
