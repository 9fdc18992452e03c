//! Looking scans up. Concurrent calls are done with one statement.

use std::collections::HashSet;

use uuid::Uuid;

use super::queues::{LookUpKey, LookedUp};
use super::save_new::padded;
use crate::call::query;
use crate::error::{SharedError, StoreError};
use crate::gathered::Waiting;
use crate::parameters::params;
use crate::store::Store;
use crate::values::{Digest, Rows, Value};

crate::prepared::statements! {
    /// A subquery for each image always uses the keys. Postgres may read all images of the tenant for a list of hashes, and all scans
    /// for a join.
    const CACHED_IDS = "WITH sent (sha256) AS (VALUES :rows) SELECT sha256, (SELECT s.id FROM scans s \
         WHERE s.image_id = (SELECT i.id FROM images i WHERE i.tenant = :tenant AND i.sha256 = sent.sha256) \
         AND s.scan_key = :scan_key AND s.answers_cache) AS id FROM sent",
        rows "bytea";
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
    /// looks only for images with these SHA-256s. It can return a scan more than once.
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
                let rows = padded(sha256s.iter().map(|it| -> [&dyn Value; 1] { [it] }), None);
                let values = params!(tenant, scan_key = *scan_key, rows = Rows(&rows));
                let cached: Vec<(Digest, Option<Uuid>)> =
                    connection.fetch_all(CACHED_IDS, values).await?;
                let cached = cached.into_iter();
                found.extend(cached.filter_map(|(sha256, id)| Some((sha256.0, id?))));
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
