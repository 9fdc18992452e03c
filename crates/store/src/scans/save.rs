//! Saving scans.

use std::fmt::Display;

use uuid::Uuid;

use super::check::check_scan;
use super::find::{scan_by_key, with_faces};
use super::records::{NewImage, NewScan, SavedScan};
use super::rows::{FaceRow, ScanRow};
use super::sources::add_source;
use crate::call::change;
use crate::collections::detach_scans;
use crate::connection::{Connection, insert_rows};
use crate::error::StoreError;
use crate::parameters::params;
use crate::rows::IdRow;
use crate::store::Store;
use crate::times::to_the_microsecond;
use crate::values::Digest;

/// Inserts the image or finds it. The update locks the row until the transaction ends, so that writers of the same
/// image wait for each other.
const UPSERT_IMAGE: &str = "INSERT INTO images (id, tenant, sha256, byte_size, width, height, \
     format, orientation, perceptual_hash, created_at) \
     VALUES (:id, :tenant, :sha256, :byte_size, :width, :height, :format, :orientation, :perceptual_hash, :created_at) \
     ON CONFLICT (tenant, sha256) DO UPDATE \
     SET perceptual_hash = coalesce(images.perceptual_hash, excluded.perceptual_hash) \
     RETURNING id";

const DELETE: &str = "DELETE FROM scans WHERE id = :id";

const KEEP: &str = "UPDATE scans SET batch_id = NULL WHERE id = :scan AND batch_id IS NOT NULL";

impl Store {
    /// Saves the scan of one image, with its faces and embeddings.
    ///
    /// If the tenant already has an image with this SHA-256, the scan is added to that image, and so is the source.
    ///
    /// If that image already has a scan with this key, and that scan can be returned from the cache, the call returns it
    /// and writes nothing. Otherwise the new scan replaces it.
    ///
    /// Calls for the same image wait for each other. When two calls save the same scan at once, one writes it and the
    /// other returns it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] when a value cannot be stored. The message names the field.
    pub async fn save_scan(&self, scan: NewScan) -> Result<SavedScan, StoreError> {
        check_scan(&scan)?;
        change!(self, "save_scan", |connection| {
            save_scan(connection, &scan, None).await
        })
    }

    /// Records that a request was answered with a scan. The scan then stays when the batch that made it is deleted.
    pub async fn keep_scan(&self, scan: Uuid) -> Result<(), StoreError> {
        change!(self, "keep_scan", |connection| {
            keep_scan(connection, scan).await
        })
    }
}

/// Saves a scan; see [`Store::save_scan`]. `batch` is the batch that makes it, if one does. Run it in a transaction.
pub(crate) async fn save_scan(
    connection: &mut Connection<'_>,
    scan: &NewScan,
    batch: Option<Uuid>,
) -> Result<SavedScan, StoreError> {
    let image_id = upsert_image(connection, scan).await?;
    if let Some(source) = &scan.source {
        add_source(connection, image_id, source).await?;
    }
    if let Some(stored) = scan_by_key(connection, image_id, &scan.record.scan_key).await? {
        if stored.answers_cache {
            let kept = with_faces(connection, stored).await?;
            if batch.is_none() {
                keep_scan(connection, kept.id).await?;
            }
            return Ok(SavedScan::Kept(Box::new(kept)));
        }
        detach_scans(connection, &[stored.id]).await?;
        connection.execute(DELETE, params!(id = stored.id)).await?;
    }
    let scan_row = ScanRow::new(image_id, scan, batch);
    insert_rows(connection, ScanRow::INTO, &[scan_row.values()]).await?;
    let vectors: Vec<_> = scan_row.embedding_values().into_iter().collect();
    insert_rows(connection, ScanRow::INTO_EMBEDDINGS, &vectors).await?;
    let faces: Vec<_> = (0..)
        .zip(&scan.faces)
        .map(|(position, face)| FaceRow::new(&scan_row, position, face))
        .collect();
    let rows: Vec<_> = faces.iter().map(FaceRow::values).collect();
    insert_rows(connection, FaceRow::INTO, &rows).await?;
    let rows: Vec<_> = faces.iter().filter_map(FaceRow::embedding_values).collect();
    insert_rows(connection, FaceRow::INTO_EMBEDDINGS, &rows).await?;
    Ok(SavedScan::Written { image_id })
}

/// Records that a request was answered with a scan, so that it stays when the batch that made it is deleted.
async fn keep_scan(connection: &mut Connection<'_>, scan: Uuid) -> Result<(), StoreError> {
    connection.execute(KEEP, params!(scan)).await?;
    Ok(())
}

async fn upsert_image(connection: &mut Connection<'_>, scan: &NewScan) -> Result<Uuid, StoreError> {
    let image = &scan.image;
    let Sizes {
        byte_size,
        width,
        height,
    } = sizes(image)?;
    let values = params!(
        id = image.id,
        tenant = scan.tenant,
        sha256 = Digest(image.sha256),
        byte_size,
        width,
        height,
        format = image.format,
        orientation = i16::from(image.orientation),
        perceptual_hash = image.perceptual_hash.map(u64::cast_signed),
        created_at = to_the_microsecond(scan.record.created_at)
    );
    let row: Option<IdRow> = connection.fetch_optional(UPSERT_IMAGE, values).await?;
    row.map(|row| row.id)
        .ok_or(StoreError::Refused(sqlx::Error::RowNotFound))
}

/// The sizes of an image in the types of the databases.
struct Sizes {
    byte_size: i64,
    width: i32,
    height: i32,
}

fn sizes(image: &NewImage) -> Result<Sizes, StoreError> {
    Ok(Sizes {
        byte_size: stored_size("byte_size", image.byte_size)?,
        width: stored_size("width", image.width)?,
        height: stored_size("height", image.height)?,
    })
}

fn stored_size<S, D>(field: &str, size: S) -> Result<D, StoreError>
where
    S: Copy + Display + TryInto<D>,
{
    size.try_into().map_err(|_| {
        StoreError::Invalid(format!(
            "the {field} of the image, {size}, is too large to store; send a smaller image"
        ))
    })
}

#[cfg(test)]
crate::prepared::statements!(UPSERT_IMAGE, DELETE, KEEP);
