//! Keys of the API.

use sqlx::types::JsonValue;
use time::OffsetDateTime;

use crate::audit::{NewAuditEntry, append};
use crate::call::{change, query};
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::record;
use crate::store::Store;
use crate::times::{from_micros, micros};
use crate::values::Digest;

/// A key of the API, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The part of the key that is not secret.
    pub id: String,
    /// The tenant whose rows the key reads and writes.
    pub tenant: String,
    /// The caller's name for the key.
    pub name: String,
    /// The names of the scopes.
    pub scopes: Vec<String>,
    /// The SHA-256 of the secret.
    pub digest: [u8; 32],
    /// When the key was created.
    pub created_at: OffsetDateTime,
    /// When the key stops being valid. `None` means never.
    pub expires_at: Option<OffsetDateTime>,
    /// When the key was revoked.
    pub revoked_at: Option<OffsetDateTime>,
    /// When the key was last used. The time is recorded when the key is read from the database, at most once a minute.
    pub last_used_at: Option<OffsetDateTime>,
}

const INSERT: &str = "INSERT INTO api_keys (id, tenant, name, scopes, digest, created_at, expires_at) \
     VALUES (:id, :tenant, :name, :scopes, :digest, :created_at, :expires_at) ON CONFLICT (id) DO NOTHING";

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, tenant, name, scopes, digest, created_at, expires_at, revoked_at, \
             last_used_at FROM api_keys ",
            $rest
        )
    };
}

const ONE: &str = select!("WHERE id = :id");

const OF_TENANT: &str = select!("WHERE tenant = :tenant ORDER BY created_at, id");

const REVOKE: &str = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, :now) \
     WHERE tenant = :tenant AND id = :id";

const RECORD_USE: &str = "UPDATE api_keys SET last_used_at = :now WHERE id = :id";

const VALID: &str =
    select!("WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) LIMIT 1");

record! {
    struct ApiKeyRow {
        id: String,
        tenant: String,
        name: String,
        scopes: JsonValue,
        digest: Digest,
        created_at: i64,
        expires_at: Option<i64>,
        revoked_at: Option<i64>,
        last_used_at: Option<i64>,
    }
}

impl TryFrom<ApiKeyRow> for ApiKey {
    type Error = StoreError;

    fn try_from(row: ApiKeyRow) -> Result<Self, StoreError> {
        let id = row.id;
        let damaged = |what| StoreError::corrupt(format!("the {what} of key {id}"));
        // A time that cannot be read must not make a key valid for ever.
        let time = |micros: Option<i64>| match micros.map(from_micros) {
            Some(None) => Err(damaged("time")),
            time => Ok(time.flatten()),
        };
        Ok(Self {
            scopes: serde_json::from_value(row.scopes).map_err(|_| damaged("scopes"))?,
            created_at: from_micros(row.created_at).ok_or_else(|| damaged("time"))?,
            tenant: row.tenant,
            name: row.name,
            digest: row.digest.0,
            expires_at: time(row.expires_at)?,
            revoked_at: time(row.revoked_at)?,
            last_used_at: row.last_used_at.and_then(from_micros),
            id,
        })
    }
}

impl Store {
    /// Adds a key, and its entry to the audit trail. Returns false, and writes nothing, if its id is taken.
    pub async fn add_key(
        &self,
        key: &ApiKey,
        audit: Option<NewAuditEntry>,
    ) -> Result<bool, StoreError> {
        change!(self, "add_key", |connection| {
            let values = params!(
                id = key.id,
                tenant = key.tenant,
                name = key.name,
                scopes = JsonValue::from(key.scopes.clone()),
                digest = Digest(key.digest),
                created_at = micros(key.created_at),
                expires_at = key.expires_at.map(micros)
            );
            let is_added = connection.execute(INSERT, values).await? == 1;
            if is_added {
                append(connection, audit.as_slice()).await?;
            }
            Ok(is_added)
        })
    }

    /// Returns a key of any tenant, also one that has expired or was revoked.
    pub async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        query!(self, "key", |connection| {
            let row: Option<ApiKeyRow> = connection.fetch_optional(ONE, params!(id)).await?;
            row.map(ApiKey::try_from).transpose()
        })
    }

    /// Returns the keys of a tenant, oldest first.
    pub async fn list_keys(&self, tenant: &str) -> Result<Vec<ApiKey>, StoreError> {
        query!(self, "list_keys", |connection| {
            let rows: Vec<ApiKeyRow> = connection.fetch_all(OF_TENANT, params!(tenant)).await?;
            rows.into_iter().map(ApiKey::try_from).collect()
        })
    }

    /// Revokes a key, and adds the entry to the audit trail. A key that was revoked before keeps its time. Returns false, and
    /// writes nothing, if the tenant has no such key.
    pub async fn revoke_key(
        &self,
        tenant: &str,
        id: &str,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<bool, StoreError> {
        change!(self, "revoke_key", |connection| {
            let values = params!(tenant, id, now = micros(now));
            let is_revoked = connection.execute(REVOKE, values).await? == 1;
            if is_revoked {
                append(connection, audit.as_slice()).await?;
            }
            Ok(is_revoked)
        })
    }

    /// Records that a key was used.
    pub async fn record_key_use(&self, id: &str, now: OffsetDateTime) -> Result<(), StoreError> {
        change!(self, "record_key_use", |connection| {
            connection
                .execute(RECORD_USE, params!(id, now = micros(now)))
                .await?;
            Ok(())
        })
    }

    /// Returns whether any tenant has a key that is valid now.
    pub async fn has_valid_key(&self, now: OffsetDateTime) -> Result<bool, StoreError> {
        query!(self, "has_valid_key", |connection| {
            let row: Option<ApiKeyRow> = connection
                .fetch_optional(VALID, params!(now = micros(now)))
                .await?;
            Ok(row.is_some())
        })
    }
}

#[cfg(test)]
crate::prepared::statements!(INSERT, ONE, OF_TENANT, REVOKE, RECORD_USE, VALID);
