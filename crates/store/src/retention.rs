//! Deleting what has been kept long enough.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::batches::{Deletion, mark_deleted};
use crate::call::{change, query};
use crate::collections::detach_scans;
use crate::error::StoreError;
use crate::parameters::params;
use crate::prepared::tenants_of;
use crate::purge::note_deletion;
use crate::store::Store;
use crate::times::{ExpiryTimes, to_the_microsecond};
use crate::values::Many;

/// What one call has deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiredResults {
    /// Scans with their faces and vectors.
    pub scans: u64,
    /// Images whose last scan was deleted.
    pub images: u64,
}

crate::prepared::statements! {
    const TENANTS = concat!(
        "WITH RECURSIVE ",
        tenants_of!("images" as "with_images"),
        ", ",
        tenants_of!("batches" as "with_batches"),
        " SELECT tenant FROM with_images WHERE tenant IS NOT NULL \
         UNION SELECT tenant FROM with_batches WHERE tenant IS NOT NULL"
    ), sorts "one row a tenant";

    /// The id of an image begins with the time when it was stored first, which is not later than its scans. So the index of ids
    /// leads to the old images.
    const OLD_SCANS = "SELECT s.id, s.image_id FROM images i JOIN scans s ON s.image_id = i.id \
         WHERE i.tenant = :tenant AND i.id < :first_id AND s.created_at < :before ORDER BY i.id LIMIT :limit",
         scans "the scans if there are images and no scans, which is never so: an image goes with its last scan";

    const DELETE_SCANS = "DELETE FROM scans WHERE id IN (:ids)";

    const DELETE_IMAGES = "DELETE FROM images WHERE id IN (:ids) \
         AND NOT EXISTS (SELECT 1 FROM scans s WHERE s.image_id = images.id)";

    const OLD_BATCHES = "SELECT id FROM batches WHERE tenant = :tenant AND deletion IS NULL \
         AND created_at < :before ORDER BY created_at LIMIT :limit";
}

impl Store {
    /// Returns the tenants that have images or batches.
    pub async fn storing_tenants(&self) -> Result<Vec<String>, StoreError> {
        query!(self, "storing_tenants", |connection| {
            Ok(connection.fetch_all(TENANTS, params!()).await?)
        })
    }

    /// Deletes at most `limit` scans of a tenant that are old enough, and the images that have no scan then.
    pub async fn expire_results(
        &self,
        tenant: &str,
        times: ExpiryTimes,
        limit: u32,
    ) -> Result<ExpiredResults, StoreError> {
        change!(self, "expire_results", |connection| {
            let ExpiryTimes { before, now } = times;
            let values = params!(
                tenant,
                before = to_the_microsecond(before),
                limit,
                first_id = first_id_after(before)
            );
            let old: Vec<(Uuid, Uuid)> = connection.fetch_all(OLD_SCANS, values).await?;
            if old.is_empty() {
                return Ok(ExpiredResults::default());
            }
            let (scans, images): (Vec<Uuid>, Vec<Uuid>) = old.into_iter().unzip();
            detach_scans(connection, &scans).await?;
            let scans = connection
                .execute(DELETE_SCANS, params!(ids = Many(&scans)))
                .await?;
            let images = connection
                .execute(DELETE_IMAGES, params!(ids = Many(&images)))
                .await?;
            note_deletion(connection, now).await?;
            Ok(ExpiredResults { scans, images })
        })
    }

    /// Marks at most `limit` batches of a tenant that were created before `before` as expired. The sweeper deletes them with
    /// their images. Returns their number.
    pub async fn expire_batches_of(
        &self,
        tenant: &str,
        before: OffsetDateTime,
        limit: u32,
    ) -> Result<u64, StoreError> {
        change!(self, "expire_batches_of", |connection| {
            let values = params!(tenant, before = to_the_microsecond(before), limit);
            let old: Vec<Uuid> = connection.fetch_all(OLD_BATCHES, values).await?;
            for batch in &old {
                mark_deleted(connection, (tenant, *batch), Deletion::Expired).await?;
            }
            Ok(old.len() as u64)
        })
    }
}

/// Returns an id that is greater than every id (UUID version 7) that was made before a time.
fn first_id_after(time: OffsetDateTime) -> Uuid {
    let milliseconds = time.unix_timestamp_nanos() / 1_000_000 + 1;
    Uuid::from_u128(u128::try_from(milliseconds).unwrap_or(0) << 80)
}
