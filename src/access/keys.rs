//! Creating and revoking the keys of a tenant.

use facescan_audit::AuditEvent;
use facescan_config::{is_tenant, scope::Scope};
use facescan_pipeline::core::error::InvalidOption;
use facescan_store::{ApiKey, NewAuditEntry, Store, StoreError};
use secrecy::SecretString;
use serde_json::json;
use time::OffsetDateTime;

use super::{error::KeyError, secret::NewSecret};

/// The name of the creation of a key in the audit trail.
pub const CREATE_KEY: &str = "create_key";

/// The name of its revocation.
pub const REVOKE_KEY: &str = "revoke_key";

/// The longest name of a key, in characters.
const MAX_NAME: usize = 128;

/// A key to be created.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The tenant whose rows the key reads and writes.
    pub tenant: String,
    /// A name for the key.
    pub name: String,
    /// What the key may do.
    pub scopes: Vec<Scope>,
    /// When the key stops being valid. `None` means never.
    pub expires_at: Option<OffsetDateTime>,
}

/// Creates a key. Returns it with its text, which is not stored. `entry` returns the entry of the audit trail, which is
/// written together with the key.
///
/// # Errors
/// Returns an error if a field is not valid, or an error of the database.
pub async fn create(
    store: &Store,
    now: OffsetDateTime,
    new: NewKey,
    entry: impl Fn(AuditEvent) -> Option<NewAuditEntry>,
) -> Result<(ApiKey, SecretString), KeyError> {
    loop {
        let (key, text) = make(new.clone(), NewSecret::generate()?, now)?;
        let details = json!({"scopes": key.scopes});
        let event = AuditEvent::change(CREATE_KEY, &key.id).with(details);
        // Another key has this id once in 2⁶⁴ times.
        if store.add_key(&key, entry(event)).await? {
            return Ok((key, text));
        }
    }
}

/// Revokes a key. Returns false if the tenant has no such key. `entry` returns the entry of the audit trail, which is
/// written together with the change.
///
/// # Errors
/// Returns an error of the database.
pub async fn revoke(
    store: &Store,
    now: OffsetDateTime,
    (tenant, id): (&str, &str),
    entry: impl Fn(AuditEvent) -> Option<NewAuditEntry>,
) -> Result<bool, StoreError> {
    let entry = entry(AuditEvent::change(REVOKE_KEY, id));
    store.revoke_key(tenant, id, now, entry).await
}

/// Makes a key with a secret. Returns it with its text.
///
/// # Errors
/// Returns an error if a field is not valid.
pub fn make(
    new: NewKey,
    secret: NewSecret,
    now: OffsetDateTime,
) -> Result<(ApiKey, SecretString), InvalidOption> {
    if new.name.is_empty() || new.name.chars().count() > MAX_NAME {
        return Err(InvalidOption::new("name", "must have 1 to 128 characters"));
    }
    if !is_tenant(&new.tenant) {
        let detail = "must have 1 to 64 letters, digits, `.`, `-` and `_`";
        return Err(InvalidOption::new("tenant", detail));
    }
    if new.scopes.is_empty() {
        return Err(InvalidOption::new("scopes", "must have at least one scope"));
    }
    if new.expires_at.is_some_and(|end| end <= now) {
        return Err(InvalidOption::new("expires_at", "must be in the future"));
    }
    let NewSecret { id, key, digest } = secret;
    let mut scopes: Vec<String> = Vec::new();
    for scope in new.scopes.iter().map(|scope| scope.name()) {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    let stored = ApiKey {
        id,
        tenant: new.tenant,
        name: new.name,
        scopes,
        digest,
        created_at: now,
        expires_at: new.expires_at,
        revoked_at: None,
        last_used_at: None,
    };
    Ok((stored, key))
}
