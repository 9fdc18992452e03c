//! What retention has deleted from a chain.
//!
//! The hashes of deleted entries stay, so that an entry whose hash was noted elsewhere can still be compared. The signature shows
//! that the program deleted the entries, and not somebody with access to the database.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::chain::LOCK_CHAIN;
use super::records::AuditChain;
use crate::call::{change, query};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::{Columns, Record};
use crate::store::Store;
use crate::times::{ExpiryTimes, from_micros, micros};
use crate::values::{Digest, hex};

/// Signs a text. `None` if there is no secret to sign with.
pub type DeletionSigner<'a> = dyn Fn(&str) -> Option<[u8; 32]> + Send + Sync + 'a;

/// Entries that one transaction of retention has deleted from a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditDeletion {
    /// The tenant.
    pub tenant: String,
    /// The number of the first deleted entry.
    pub first: u64,
    /// When they were deleted, to the microsecond.
    pub at: OffsetDateTime,
    /// The hash of each deleted entry, in order.
    pub hashes: Vec<[u8; 32]>,
    /// The signature of [`signed_text`](Self::signed_text). `None` if no secret was set.
    pub signature: Option<[u8; 32]>,
}

impl AuditDeletion {
    /// Returns the number of the last deleted entry.
    pub fn last(&self) -> u64 {
        self.first + self.hashes.len() as u64 - 1
    }

    /// Returns the hash that a deleted entry had.
    pub fn hash(&self, number: u64) -> Option<[u8; 32]> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.hashes.get(index).copied()
    }

    /// Returns the text that is signed: a JSON list without spaces, with the SHA-256 of all hashes.
    pub fn signed_text(&self) -> String {
        let hashes = hex(&Sha256::digest(self.hashes.as_flattened()));
        let at = micros(self.at);
        serde_json::json!([
            "facescan audit deletion",
            self.tenant,
            self.first,
            self.last(),
            at,
            hashes
        ])
        .to_string()
    }
}

crate::prepared::statements! {
    /// The newest of the oldest entries that are old enough. Entries of several servers can be a little out of order, so the first
    /// entry that is too young ends the range.
    const EXPIRED = "SELECT number, hash FROM audit_entries WHERE tenant = :tenant AND number <= :end \
         AND number < coalesce((SELECT min(number) FROM audit_entries WHERE tenant = :tenant AND at >= :before), :highest) \
         ORDER BY number DESC LIMIT 1";

    const HASHES =
        "SELECT hash FROM audit_entries WHERE tenant = :tenant AND number <= :number ORDER BY number";

    const INSERT = "INSERT INTO audit_deletions (tenant, first, last, at, hashes, signature) \
         VALUES (:tenant, :first, :last, :at, :hashes, :signature)";

    const DELETIONS = "SELECT tenant, first, at, hashes, signature FROM audit_deletions \
         WHERE tenant = :tenant AND first > :after ORDER BY first LIMIT :limit";

    const MOVE_START =
        "UPDATE audit_chains SET deleted = :deleted, deleted_hash = :hash WHERE tenant = :tenant";

    const DELETE = "DELETE FROM audit_entries WHERE tenant = :tenant AND number <= :number";
}

impl Record for AuditDeletion {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let bytes: Vec<u8> = row.get("hashes")?;
        let (hashes, rest) = bytes.as_chunks::<32>();
        if hashes.is_empty() || !rest.is_empty() {
            return Err(row.damaged("hashes"));
        }
        let signature: Option<Digest> = row.get("signature")?;
        Ok(Self {
            tenant: row.get("tenant")?,
            first: row.number("first")?,
            at: row.time("at")?,
            hashes: hashes.to_vec(),
            signature: signature.map(|signature| signature.0),
        })
    }
}

impl Store {
    /// Deletes at most `limit` of the oldest entries of a tenant, if they happened before `times.before`, and keeps their hashes
    /// in an [`AuditDeletion`], which `sign` signs. Returns their number.
    pub async fn expire_audit(
        &self,
        tenant: &str,
        times: ExpiryTimes,
        limit: u32,
        sign: &DeletionSigner<'_>,
    ) -> Result<u64, StoreError> {
        change!(self, "expire_audit", |connection| {
            let Some(start) = connection
                .fetch_optional::<AuditChain>(LOCK_CHAIN, params!(tenant))
                .await?
            else {
                return Ok(0);
            };
            let end = start.deleted + u64::from(limit);
            let values = params!(
                tenant,
                before = micros(times.before),
                end,
                highest = i64::MAX
            );
            let Some((number, hash)) = connection
                .fetch_optional::<(i64, Digest)>(EXPIRED, values)
                .await?
            else {
                return Ok(0);
            };
            let hashes = connection
                .fetch_all(HASHES, params!(tenant, number))
                .await?;
            let deletion = AuditDeletion {
                tenant: tenant.to_owned(),
                first: start.deleted + 1,
                at: from_micros(micros(times.now)).unwrap_or(times.now),
                hashes,
                signature: None,
            };
            record(connection, &deletion, sign(&deletion.signed_text())).await?;
            let deleted = connection.execute(DELETE, params!(tenant, number)).await?;
            connection
                .execute(MOVE_START, params!(tenant, deleted = number, hash))
                .await?;
            Ok(deleted)
        })
    }

    /// Returns deletions of a tenant whose first entry has a number greater than `after`, in order.
    pub async fn audit_deletions(
        &self,
        tenant: &str,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditDeletion>, StoreError> {
        query!(self, "audit_deletions", |connection| {
            let values = params!(tenant, after, limit);
            Ok(connection.fetch_all(DELETIONS, values).await?)
        })
    }
}

async fn record(
    connection: &mut Connection<'_>,
    deletion: &AuditDeletion,
    signature: Option<[u8; 32]>,
) -> Result<(), StoreError> {
    let values = params!(
        tenant = deletion.tenant,
        first = deletion.first,
        last = deletion.last(),
        at = micros(deletion.at),
        hashes = deletion.hashes.as_flattened().to_vec(),
        signature
    );
    connection.execute(INSERT, values).await?;
    Ok(())
}
