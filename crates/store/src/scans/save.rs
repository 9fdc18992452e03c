//! Saving scans.

use std::fmt::Display;

use uuid::Uuid;

use super::check::check_scan;
use super::find::{faces_of_scan, scan_by_key};
use super::records::{NewScan, SavedScan};
use super::rows::{INTO_FACES, NewVectorRow, new_face_values};
use super::sources::add_source;
use crate::call::change;
use crate::collections::detach_scans;
use crate::connection::{Connection, insert_rows};
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::to_the_microsecond;

crate::prepared::statements! {
    /// Inserts the image or finds it. The update locks the row until the transaction ends, so that writers of the same
    /// image wait for each other.
    const UPSERT_IMAGE = "INSERT INTO images (id, tenant, sha256, byte_size, width, height, \
         format, orientation, perceptual_hash, created_at) \
         VALUES (:id, :tenant, :sha256, :byte_size, :width, :height, :format, :orientation, :perceptual_hash, :created_at) \
         ON CONFLICT (tenant, sha256) DO UPDATE \
         SET perceptual_hash = coalesce(images.perceptual_hash, excluded.perceptual_hash) \
         RETURNING id";

    const INSERT = "INSERT INTO scans (id, image_id, scan_key, operation, detector_id, detector_sha256, embedder_id, \
         embedder_vector_space, picture_quality, devices, answers_cache, created_at, batch_id) \
         VALUES (:id, :image_id, :scan_key, :operation, :detector_id, :detector_sha256, :embedder_id, \
         :embedder_vector_space, :picture_quality, :devices, :answers_cache, :created_at, :batch)";

    const DELETE = "DELETE FROM scans WHERE id = :id";

    const KEEP = "UPDATE scans SET batch_id = NULL WHERE id = :scan AND batch_id IS NOT NULL";
}

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
            connection.execute(KEEP, params!(scan)).await?;
            Ok(())
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
    if let Some(mut stored) = scan_by_key(connection, image_id, &scan.record.scan_key).await? {
        if stored.record.answers_cache {
            stored.faces = faces_of_scan(connection, stored.id).await?;
            if batch.is_none() {
                // A request is answered with the scan, so it stays when the batch that made it is deleted.
                connection.execute(KEEP, params!(scan = stored.id)).await?;
            }
            return Ok(SavedScan::Kept(Box::new(stored)));
        }
        detach_scans(connection, &[stored.id]).await?;
        connection.execute(DELETE, params!(id = stored.id)).await?;
    }
    insert_scan(connection, (image_id, batch), scan).await?;
    let faces: Vec<_> = (0..).zip(&scan.faces).collect();
    let rows: Vec<_> = faces
        .iter()
        .map(|(position, face)| new_face_values((&scan.id, &image_id), position, face))
        .collect();
    insert_rows(connection, INTO_FACES, &rows).await?;
    let vectors: Vec<_> = scan
        .faces
        .iter()
        .filter_map(NewVectorRow::from_face)
        .collect();
    let rows: Vec<_> = vectors.iter().map(NewVectorRow::values).collect();
    insert_rows(connection, NewVectorRow::INTO_FACES, &rows).await?;
    Ok(SavedScan::Written { image_id })
}

/// Inserts a scan of an image and the vector of the whole image. `batch` is the batch that makes it, if one does.
async fn insert_scan(
    connection: &mut Connection<'_>,
    (image_id, batch): (Uuid, Option<Uuid>),
    scan: &NewScan,
) -> Result<(), StoreError> {
    let record = &scan.record;
    let detector = record.detector.as_ref();
    let embedder = record.embedder.as_ref();
    let values = params!(
        id = scan.id,
        image_id,
        scan_key = record.scan_key,
        operation = record.operation,
        detector_id = detector.map(|detector| detector.id.clone()),
        detector_sha256 = detector.map(|detector| detector.sha256),
        embedder_id = embedder.map(|embedder| embedder.id.clone()),
        embedder_vector_space = embedder.map(|embedder| embedder.vector_space.clone()),
        picture_quality = record.picture_quality,
        devices = record.devices,
        answers_cache = record.answers_cache,
        created_at = to_the_microsecond(record.created_at),
        batch
    );
    connection.execute(INSERT, values).await?;
    if let Some(embedding) = &record.image_embedding {
        let vector = NewVectorRow::from_image(&scan.id, embedding);
        insert_rows(connection, NewVectorRow::INTO_IMAGES, &[vector.values()]).await?;
    }
    Ok(())
}

async fn upsert_image(connection: &mut Connection<'_>, scan: &NewScan) -> Result<Uuid, StoreError> {
    let image = &scan.image;
    let values = params!(
        id = image.id,
        tenant = scan.tenant,
        sha256 = image.sha256,
        byte_size = stored_size::<_, i64>("byte_size", image.byte_size)?,
        width = stored_size::<_, i32>("width", image.width)?,
        height = stored_size::<_, i32>("height", image.height)?,
        format = image.format,
        orientation = i16::from(image.orientation),
        perceptual_hash = image.perceptual_hash.map(u64::cast_signed),
        created_at = to_the_microsecond(scan.record.created_at)
    );
    Ok(connection.fetch_one(UPSERT_IMAGE, values).await?)
}

/// Returns a size of an image in the type of the databases.
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
