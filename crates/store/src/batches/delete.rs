//! Deleting batches and their payloads.
//!
//! A batch is deleted in steps, because its objects are not in the database. First it is marked, so that no call sees it and
//! no worker can write to it. Then its objects are deleted, and last its rows. A process that dies in between leaves a marked
//! batch, and the next sweep deletes the rest.

use time::OffsetDateTime;
use uuid::Uuid;

use super::manage::LOCK_CHUNKS;
use super::records::{BatchKey, Deletion};
use crate::call::{change, query};
use crate::collections::detach_scans;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::purge::note_deletion;
use crate::store::Store;
use crate::times::{micros, to_the_microsecond};

crate::prepared::statements! {
    /// The key is free again, so that the request can be sent again.
    const MARK = "UPDATE batches SET deletion = :deletion, is_open = :is_open, idempotency_key = NULL \
         WHERE tenant = :tenant AND id = :batch AND deletion IS NULL";

    /// Without its chunk, a lease is lost.
    const DELETE_CHUNKS = "DELETE FROM batch_chunks WHERE batch_id = :batch";

    const EXPIRED = "SELECT tenant, id FROM batches \
         WHERE deletion IS NULL AND expires_at <= :now ORDER BY expires_at LIMIT 100";

    const DELETED =
        "SELECT tenant, id FROM batches WHERE deletion IS NOT NULL ORDER BY id LIMIT :limit";

    /// Locks the batch until the transaction ends.
    const LOCK_DELETED = "UPDATE batches SET payloads_due = payloads_due \
         WHERE id = :batch AND deletion IS NOT NULL RETURNING deletion";

    /// The scans that the batch made and that no item of another batch has.
    const OWN_SCANS = "SELECT s.id, s.image_id FROM scans s WHERE s.batch_id = :batch AND NOT EXISTS \
         (SELECT 1 FROM batch_items i WHERE i.scan_id = s.id AND i.batch_id <> :batch)";

    const DELETE_SCAN = "DELETE FROM scans WHERE id = :scan";

    const DELETE_IMAGE = "DELETE FROM images WHERE id = :image AND NOT EXISTS \
         (SELECT 1 FROM scans s WHERE s.image_id = :image)";

    const COUNT_FACES = "SELECT count(*) AS faces, count(e.face_id) AS vectors FROM faces f \
         LEFT JOIN embeddings e ON e.face_id = f.id WHERE f.scan_id = :scan";

    const COUNT_VECTORS = "SELECT CAST(0 AS bigint) AS faces, count(*) AS vectors \
         FROM image_embeddings WHERE scan_id = :scan";

    const KEEP_COUNTS = "INSERT INTO deleted_batches (id, tenant, operation, accepted, ok, error, \
         dead, cancelled, scans, images, faces, vectors, deletion, created_at, deleted_at) \
         SELECT id, tenant, operation, accepted, ok, error, dead, cancelled, :scans, :images, :faces, :vectors, deletion, \
         created_at, :now FROM batches WHERE id = :batch ON CONFLICT (id) DO NOTHING";

    const DUE_PAYLOADS = "SELECT tenant, id FROM batches \
         WHERE payloads_due AND deletion IS NULL ORDER BY id LIMIT :limit";

    /// An item with another state may need its payload for another attempt.
    const FINISHED_PAYLOADS = "SELECT DISTINCT i.payload FROM batch_items i \
         WHERE i.batch_id = :batch AND i.payload IS NOT NULL AND (i.payload > :after OR :after IS NULL) \
         AND i.state IN ('ok', 'cancelled') AND NOT EXISTS (SELECT 1 FROM batch_items o \
             WHERE o.batch_id = :batch AND o.payload = i.payload AND o.state NOT IN ('ok', 'cancelled')) \
         ORDER BY i.payload LIMIT :limit";

    const DELETE = "DELETE FROM batches WHERE id = :batch";

    const SWEPT = "UPDATE batches SET payloads_due = :payloads_due WHERE id = :batch";
}

/// Marks a batch; see [`Store::delete_batch`]. Run it in a transaction.
pub(crate) async fn mark_deleted(
    connection: &mut Connection<'_>,
    (tenant, batch): (&str, Uuid),
    deletion: Deletion,
) -> Result<bool, StoreError> {
    connection
        .execute(LOCK_CHUNKS, params!(tenant, batch))
        .await?;
    let values = params!(tenant, batch, deletion = deletion.name(), is_open = false);
    if connection.execute(MARK, values).await? == 0 {
        return Ok(false);
    }
    connection.execute(DELETE_CHUNKS, params!(batch)).await?;
    Ok(true)
}

impl Store {
    /// Marks a batch as deleted. Every call but [`purge_batch`](Self::purge_batch) and
    /// [`deleted_batches`](Self::deleted_batches) treats it as absent from then on. Returns false if the tenant has no such
    /// batch.
    pub async fn delete_batch(&self, tenant: &str, batch: Uuid) -> Result<bool, StoreError> {
        change!(self, "delete_batch", |connection| {
            mark_deleted(connection, (tenant, batch), Deletion::Erased).await
        })
    }

    /// Marks the batches as deleted whose time is over. Returns their number.
    pub async fn expire_batches(&self, now: OffsetDateTime) -> Result<u64, StoreError> {
        change!(self, "expire_batches", |connection| {
            let expired: Vec<BatchKey> = connection
                .fetch_all(EXPIRED, params!(now = micros(now)))
                .await?;
            for batch in &expired {
                mark_deleted(connection, (&batch.tenant, batch.id), Deletion::Expired).await?;
            }
            Ok(expired.len() as u64)
        })
    }

    /// Returns batches that are marked as deleted, and whose rows are still there.
    pub async fn deleted_batches(&self, limit: u32) -> Result<Vec<BatchKey>, StoreError> {
        query!(self, "deleted_batches", |connection| {
            Ok(connection.fetch_all(DELETED, params!(limit)).await?)
        })
    }

    /// Deletes the rows of a batch that is marked as deleted. Delete its objects first.
    ///
    /// If the tenant deleted the batch, this also deletes the scans that it made and that no other batch and no request was
    /// answered with, and the images that then have no scan. A row with the counts stays.
    pub async fn purge_batch(&self, batch: Uuid, now: OffsetDateTime) -> Result<(), StoreError> {
        change!(self, "purge_batch", no_limit, |connection| {
            let deletion: Option<String> = connection
                .fetch_optional(LOCK_DELETED, params!(batch))
                .await?;
            let Some(deletion) = deletion else {
                return Ok(());
            };
            let mut counts = Counts::default();
            if deletion == Deletion::Erased.name() {
                for (scan, image) in connection.fetch_all(OWN_SCANS, params!(batch)).await? {
                    counts.delete_scan(connection, scan, image).await?;
                }
            }
            let values = params!(
                batch,
                scans = counts.scans,
                images = counts.images,
                faces = counts.faces,
                vectors = counts.vectors,
                now = to_the_microsecond(now)
            );
            connection.execute(KEEP_COUNTS, values).await?;
            connection.execute(DELETE, params!(batch)).await?;
            note_deletion(connection, now).await
        })
    }

    /// Returns batches that ended since the last sweep of their payloads.
    pub async fn batches_with_due_payloads(&self, limit: u32) -> Result<Vec<BatchKey>, StoreError> {
        query!(self, "batches_with_due_payloads", |connection| {
            Ok(connection.fetch_all(DUE_PAYLOADS, params!(limit)).await?)
        })
    }

    /// Returns payloads of a batch whose items all have a result, in order. `after` is the last one of the previous page.
    pub async fn finished_payloads(
        &self,
        batch: Uuid,
        after: Option<[u8; 32]>,
        limit: u32,
    ) -> Result<Vec<[u8; 32]>, StoreError> {
        query!(self, "finished_payloads", |connection| {
            let values = params!(batch, after, limit);
            Ok(connection.fetch_all(FINISHED_PAYLOADS, values).await?)
        })
    }

    /// Records that the finished payloads of a batch were deleted.
    pub async fn payloads_swept(&self, batch: Uuid) -> Result<(), StoreError> {
        change!(self, "payloads_swept", |connection| {
            connection
                .execute(SWEPT, params!(batch, payloads_due = false))
                .await?;
            Ok(())
        })
    }
}

/// What is deleted with a batch.
#[derive(Default)]
struct Counts {
    scans: i64,
    images: i64,
    faces: i64,
    vectors: i64,
}

impl Counts {
    async fn delete_scan(
        &mut self,
        connection: &mut Connection<'_>,
        scan: Uuid,
        image: Uuid,
    ) -> Result<(), StoreError> {
        for query in [COUNT_FACES, COUNT_VECTORS] {
            let (faces, vectors): (i64, i64) = connection.fetch_one(query, params!(scan)).await?;
            self.faces += faces;
            self.vectors += vectors;
        }
        self.scans += 1;
        detach_scans(connection, &[scan]).await?;
        connection.execute(DELETE_SCAN, params!(scan)).await?;
        let deleted = connection.execute(DELETE_IMAGE, params!(image)).await?;
        self.images += i64::try_from(deleted).unwrap_or(0);
        Ok(())
    }
}
