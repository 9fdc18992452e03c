//! The first key of a server. Without it, nobody could create one over HTTP.

use std::{fs, path::PathBuf};

use facescan_audit::{AuditEvent, command_entry};
use facescan_clock::Clock;
use facescan_config::{Config, scope::Scope};
use facescan_store::{Store, StoreError};
use secrecy::{ExposeSecret, SecretString};

use super::{
    error::KeyError,
    keys::{self, NewKey},
    secret::NewSecret,
};

/// The name of the key in lists.
const NAME: &str = "first key";

/// What the start of a server did about the first key.
#[derive(Debug)]
pub enum FirstKey {
    /// The key of the settings was stored.
    Stored,
    /// A key was made and stored. Nothing shows it again.
    Made(SecretString),
    /// Another server stored the first key at the same time.
    Known,
}

/// Why a server has no first key.
#[derive(Debug, thiserror::Error)]
pub enum FirstKeyError {
    /// The database has keys, and nobody can use one. A new one would open the server to whoever can restart it.
    #[error(
        "every key has expired or is revoked; create one with `facescan keys create`, or set access.mode to `off` if something in \
         front of the server decides who may use it"
    )]
    NoneIsValid,
    /// The text in the settings is no key.
    #[error(
        "access.first_key is not a key: it must be `fsk_`, 16 hex digits, `_`, and 32 letters and digits or more; make one with \
         `echo fsk_$(openssl rand -hex 8)_$(openssl rand -hex 32)`"
    )]
    NotAKey,
    /// The file in the settings cannot be read.
    #[error("cannot read {}, which access.first_key_file names", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The key cannot be made or stored.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Stores the first key of a server whose database never had one: that of the settings, or a new one.
///
/// # Errors
/// Returns an error if the database has keys, if the key of the settings cannot be read or is none, or an error of the database.
pub async fn store_first_key(
    store: &Store,
    config: &Config,
    clock: &dyn Clock,
) -> Result<FirstKey, FirstKeyError> {
    if store.has_keys().await? {
        return Err(FirstKeyError::NoneIsValid);
    }
    let configured = configured(config)?;
    let secret = match &configured {
        Some(text) => {
            NewSecret::parse(text.expose_secret().trim()).ok_or(FirstKeyError::NotAKey)?
        }
        None => NewSecret::generate().map_err(KeyError::from)?,
    };
    let tenant = &config.store.tenant;
    let new = NewKey {
        tenant: tenant.clone(),
        name: NAME.to_owned(),
        scopes: Scope::ALL.to_vec(),
        expires_at: None,
    };
    let (key, text) = keys::make(new, secret, clock.now()).map_err(KeyError::from)?;
    let mut event = AuditEvent::change(keys::CREATE_KEY, &key.id);
    event.details = serde_json::json!({"scopes": key.scopes, "by": "the first start"});
    let entry = command_entry(config.audit.level, clock, tenant, event);
    let is_new = store.add_first_key(&key, entry).await?;
    Ok(match configured {
        None if is_new => FirstKey::Made(text),
        Some(_) if is_new => FirstKey::Stored,
        _ => FirstKey::Known,
    })
}

/// Returns the first key of the settings.
fn configured(config: &Config) -> Result<Option<SecretString>, FirstKeyError> {
    let access = &config.access;
    if access.first_key.is_some() {
        return Ok(access.first_key.clone());
    }
    let Some(path) = access.first_key_file.clone() else {
        return Ok(None);
    };
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.into())),
        Err(source) => Err(FirstKeyError::File { path, source }),
    }
}
