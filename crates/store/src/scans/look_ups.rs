//! Looking scans up. Concurrent calls are done with one statement.

use std::collections::HashSet;

use uuid::Uuid;

use super::queues::{LookUpKey, LookedUp};
use crate::call::query;
use crate::error::{SharedError, StoreError};
use crate::gathered::Waiting;
use crate::parameters::params;
use crate::store::Store;
use crate::values::{Digest, Many};

crate::prepared::statements! {
    /// The outer join keeps Postgres from reading the scans first.
    const CACHED_IDS = "SELECT i.sha256, s.id FROM images i \
         LEFT JOIN scans s ON s.image_id = i.id AND s.scan_key = :scan_key \
         WHERE i.tenant = :tenant AND i.sha256 IN (:sha256s) AND coalesce(s.answers_cache, FALSE)";
}

/// The most look-ups of one statement.
const MAX_LOOK_UPS: usize = 64;

impl Store {
    /// Returns whether the image with this SHA-256 has a scan with this key that can be returned from the cache.
    pub(super) async fn has_scan(
        &self,
        tenant: &str,
        sha256: &[u8; 32],
        scan_key: &[u8; 32],
    ) -> Result<bool, StoreError> {
        let key = LookUpKey {
            tenant: tenant.to_owned(),
            scan_key: *scan_key,
        };
        let found = self.look_ups().add(key.clone(), *sha256, || {
            tokio::spawn(self.clone().look_up(key));
        });
        match found.await {
            Ok(LookedUp::Ended(found)) => found,
            Ok(LookedUp::Alone) => {
                let sha256s = [*sha256];
                let found = self.cached_scan_ids(tenant, scan_key, &sha256s);
                Ok(!found.await?.is_empty())
            }
            // The runtime ends.
            Err(_) => Err(StoreError::Unavailable(sqlx::Error::WorkerCrashed)),
        }
    }

    async fn look_up(self, key: LookUpKey) {
        let mut worker = self.look_ups().worker(key.clone());
        while let Some(group) = worker.next_group(self.turns(), at_most(MAX_LOOK_UPS)).await {
            let sha256s: Vec<_> = group.iter().map(|it| it.call).collect();
            let found = self.cached_scan_ids(&key.tenant, &key.scan_key, &sha256s);
            let found = match found.await {
                Ok(found) => found,
                Err(error) => {
                    fail(group, error);
                    continue;
                }
            };
            let found: HashSet<_> = found.into_iter().map(|(sha256, _)| sha256).collect();
            for it in group {
                let is_found = found.contains(&it.call);
                it.reply(LookedUp::Ended(Ok(is_found)));
            }
        }
    }

    /// Returns the ids of scans with this key that can be returned from the cache, each with the SHA-256 of its image. It
    /// looks only for images with these SHA-256s.
    pub async fn cached_scan_ids(
        &self,
        tenant: &str,
        scan_key: &[u8; 32],
        sha256s: &[[u8; 32]],
    ) -> Result<Vec<([u8; 32], Uuid)>, StoreError> {
        query!(self, "cached_scan_ids", |connection| {
            const IMAGES_PER_QUERY: usize = 500;
            let mut found = Vec::new();
            for sha256s in sha256s.chunks(IMAGES_PER_QUERY) {
                let values = params!(tenant, scan_key = *scan_key, sha256s = Many(sha256s));
                let cached: Vec<(Digest, Uuid)> = connection.fetch_all(CACHED_IDS, values).await?;
                found.extend(cached.into_iter().map(|(sha256, id)| (sha256.0, id)));
            }
            Ok(found)
        })
    }
}

/// Replies after a statement that failed.
fn fail(group: Vec<Waiting<[u8; 32], LookedUp>>, error: StoreError) {
    let error = SharedError::new(error);
    for it in group {
        it.reply(match &error {
            Some(error) => LookedUp::Ended(Err(error.get())),
            None => LookedUp::Alone,
        });
    }
}

/// Lets so many look-ups into a group.
fn at_most(limit: usize) -> impl FnMut(&[u8; 32]) -> bool {
    let mut count = 0;
    move |_| {
        count += 1;
        count <= limit
    }
}
