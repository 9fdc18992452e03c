//! Keys of the API.

use sqlx::types::JsonValue;
use time::OffsetDateTime;

use crate::audit::{NewAuditEntry, append};
use crate::call::{change, query};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::{Columns, Field, record};
use crate::store::Store;
use crate::times::micros;

record! {
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
        pub last_used_at: Option<OffsetDateTime> = informal_time("last_used_at"),
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, tenant, name, scopes, digest, created_at, expires_at, revoked_at, \
             last_used_at FROM api_keys ",
            $rest
        )
    };
}

crate::prepared::statements! {
    const INSERT = "INSERT INTO api_keys (id, tenant, name, scopes, digest, created_at, expires_at) \
         VALUES (:id, :tenant, :name, :scopes, :digest, :created_at, :expires_at) ON CONFLICT (id) DO NOTHING";

    const ONE = select!("WHERE id = :id");

    const OF_TENANT = select!("WHERE tenant = :tenant ORDER BY created_at, id"), scans "the keys of one tenant";

    const REVOKE = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, :now) \
         WHERE tenant = :tenant AND id = :id";

    const RECORD_USE = "UPDATE api_keys SET last_used_at = :now WHERE id = :id";

    /// Held until the end of the transaction.
    const LOCK = "SELECT pg_advisory_xact_lock(7180369124406)", only postgres;

    const ANY = "SELECT id FROM api_keys LIMIT 1", scans "one key is enough";

    const VALID = "SELECT id FROM api_keys WHERE revoked_at IS NULL \
         AND (expires_at IS NULL OR expires_at > :now) LIMIT 1", scans "the keys are few";
}

/// The scopes of a key, as JSON.
impl Field for Vec<String> {
    fn read(row: &Columns<'_>, column: &str) -> Result<Self, sqlx::Error> {
        serde_json::from_value(row.get(column)?).map_err(|_| row.damaged(column))
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
            insert(connection, key, audit.as_slice()).await
        })
    }

    /// Returns a key of any tenant, also one that has expired or was revoked.
    pub async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        query!(self, "key", |connection| {
            Ok(connection.fetch_optional(ONE, params!(id)).await?)
        })
    }

    /// Returns the keys of a tenant, oldest first.
    pub async fn list_keys(&self, tenant: &str) -> Result<Vec<ApiKey>, StoreError> {
        query!(self, "list_keys", |connection| {
            Ok(connection.fetch_all(OF_TENANT, params!(tenant)).await?)
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

    /// Adds a key, and its entry to the audit trail, if no tenant has any key. Returns false, and writes nothing, if there is one.
    pub async fn add_first_key(
        &self,
        key: &ApiKey,
        audit: Option<NewAuditEntry>,
    ) -> Result<bool, StoreError> {
        change!(self, "add_first_key", |connection| {
            // Another server can be at the same place.
            if connection.has_several_writers() {
                connection.execute(LOCK, params!()).await?;
            }
            if connection.exists(ANY, params!()).await? {
                return Ok(false);
            }
            insert(connection, key, audit.as_slice()).await
        })
    }

    /// Returns whether any tenant has a key, valid or not.
    pub async fn has_keys(&self) -> Result<bool, StoreError> {
        query!(self, "has_keys", |connection| {
            Ok(connection.exists(ANY, params!()).await?)
        })
    }

    /// Returns whether any tenant has a key that is valid now.
    pub async fn has_valid_key(&self, now: OffsetDateTime) -> Result<bool, StoreError> {
        query!(self, "has_valid_key", |connection| {
            let now = params!(now = micros(now));
            Ok(connection.exists(VALID, now).await?)
        })
    }
}

async fn insert(
    connection: &mut Connection<'_>,
    key: &ApiKey,
    audit: &[NewAuditEntry],
) -> Result<bool, StoreError> {
    let values = params!(
        id = key.id,
        tenant = key.tenant,
        name = key.name,
        scopes = JsonValue::from(key.scopes.clone()),
        digest = key.digest,
        created_at = micros(key.created_at),
        expires_at = key.expires_at.map(micros)
    );
    let is_added = connection.execute(INSERT, values).await? == 1;
    if is_added {
        append(connection, audit).await?;
    }
    Ok(is_added)
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

    use super::*;
    use crate::record::Record as _;

    /// Reads a key whose time in one column is out of range.
    async fn read(damaged: &str) -> Result<ApiKey, sqlx::Error> {
        let times = ["created_at", "expires_at", "revoked_at", "last_used_at"].map(|column| {
            let time = if column == damaged { i64::MAX } else { 0 };
            format!("{time} AS {column}")
        });
        let query = format!(
            "SELECT 'k' AS id, 't' AS tenant, 'n' AS name, '[]' AS scopes, zeroblob(32) AS digest, {}",
            times.join(", ")
        );
        let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
        let row = sqlx::query(AssertSqlSafe(query))
            .fetch_one(&mut connection)
            .await?;
        ApiKey::from_row(&Columns::Sqlite(&row))
    }

    #[test]
    fn a_damaged_time_refuses_a_key_unless_nothing_depends_on_it() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for damaged in ["created_at", "expires_at", "revoked_at"] {
            let error = runtime.block_on(read(damaged)).unwrap_err().to_string();
            assert!(error.contains(damaged), "{error}");
            assert!(error.contains("the row with id k, tenant t"), "{error}");
        }
        let key = runtime.block_on(read("last_used_at")).unwrap();
        assert_eq!(key.last_used_at, None);
    }
}
