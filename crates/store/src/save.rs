//! Saving scans, sources and models.

use std::fmt::Display;

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::StoreError;
use super::collections::detach_scans;
use super::dialect::{Statements, insert_rows};
use super::read;
use super::records::{Model, NewFace, NewImage, NewScan, SavedScan, Source};
use super::rows::{FaceRow, IdRow, ScanRow, to_the_microsecond};
use super::values::{Digest, Value};

/// The longest source id in bytes. Postgres allows 2704 bytes for the index entry that holds it.
const MAX_SOURCE_ID: usize = 1024;

/// Inserts the image or finds it. The update locks the row until the transaction ends, so that writers of the same
/// image wait for each other.
const UPSERT_IMAGE: &str = "INSERT INTO images (id, tenant, sha256, byte_size, width, height, \
     format, orientation, perceptual_hash, created_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
     ON CONFLICT (tenant, sha256) DO UPDATE \
     SET perceptual_hash = coalesce(images.perceptual_hash, excluded.perceptual_hash) \
     RETURNING id";

const UPSERT_SOURCE: &str = "INSERT INTO image_sources \
     (image_id, source_key, source_id, source_url, seen_at) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (image_id, source_key) DO UPDATE SET seen_at = excluded.seen_at";

/// Locks the image, so that no other call deletes it meanwhile.
const LOCK_IMAGE: &str =
    "UPDATE images SET tenant = tenant WHERE tenant = $1 AND id = $2 RETURNING id";

const INSERT_MODEL: &str = "INSERT INTO models \
     (id, role, family, sha256, contract, dim, first_seen) VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT DO NOTHING";

/// Saves a scan; see [`super::Store::save_scan`]. `batch` is the batch that makes it, if one does. Run it in a transaction.
pub(super) async fn save_scan(
    connection: &mut impl Statements,
    scan: &NewScan,
    batch: Option<Uuid>,
) -> Result<SavedScan, StoreError> {
    let image_id = upsert_image(connection, scan).await?;
    if let Some(source) = &scan.source {
        add_source(connection, image_id, source).await?;
    }
    if let Some(stored) = read::scan_by_key(connection, image_id, &scan.scan_key).await? {
        if stored.answers_cache {
            let kept = read::with_faces(connection, stored).await?;
            if batch.is_none() {
                keep_scan(connection, kept.id).await?;
            }
            return Ok(SavedScan::Kept(Box::new(kept)));
        }
        detach_scans(connection, &[stored.id]).await?;
        connection
            .execute("DELETE FROM scans WHERE id = $1", &[&stored.id])
            .await?;
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
pub(super) async fn keep_scan(
    connection: &mut impl Statements,
    scan: Uuid,
) -> Result<(), StoreError> {
    const KEEP: &str = "UPDATE scans SET batch_id = NULL WHERE id = $1 AND batch_id IS NOT NULL";
    connection.execute(KEEP, &[&scan]).await?;
    Ok(())
}

async fn upsert_image(
    connection: &mut impl Statements,
    scan: &NewScan,
) -> Result<Uuid, StoreError> {
    let image = &scan.image;
    let Sizes {
        byte_size,
        width,
        height,
    } = sizes(image)?;
    let values: [&dyn Value; 10] = [
        &image.id,
        &scan.tenant,
        &Digest(image.sha256),
        &byte_size,
        &width,
        &height,
        &image.format,
        &i16::from(image.orientation),
        &image.perceptual_hash.map(u64::cast_signed),
        &to_the_microsecond(scan.created_at),
    ];
    let row: Option<IdRow> = connection.fetch_optional(UPSERT_IMAGE, &values).await?;
    row.map(|row| row.id)
        .ok_or(StoreError::Refused(sqlx::Error::RowNotFound))
}

/// Adds a source to an image of the tenant. Returns false if there is no such image.
pub(super) async fn add_source_of(
    connection: &mut impl Statements,
    tenant: &str,
    image_id: Uuid,
    source: &Source,
) -> Result<bool, StoreError> {
    let image: Option<IdRow> = connection
        .fetch_optional(LOCK_IMAGE, &[&tenant, &image_id])
        .await?;
    if image.is_some() {
        add_source(connection, image_id, source).await?;
    }
    Ok(image.is_some())
}

/// Adds a source to an image, or sets the time of a source that the image has.
async fn add_source(
    connection: &mut impl Statements,
    image_id: Uuid,
    source: &Source,
) -> Result<(), StoreError> {
    let present = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (id, url) = (present(&source.id), present(&source.url));
    if id.is_none() && url.is_none() {
        return Ok(());
    }
    let key = source_key(id.as_deref(), url.as_deref());
    let seen_at = to_the_microsecond(source.seen_at);
    connection
        .execute(UPSERT_SOURCE, &[&image_id, &key, &id, &url, &seen_at])
        .await?;
    Ok(())
}

/// Returns a digest of both parts. The length of the id separates them.
fn source_key(id: Option<&str>, url: Option<&str>) -> Digest {
    let id = id.unwrap_or_default();
    let mut hasher = Sha256::new();
    hasher.update((id.len() as u64).to_le_bytes());
    hasher.update(id);
    hasher.update(url.unwrap_or_default());
    Digest(hasher.finalize().into())
}

/// Records the models that have no row yet.
pub(super) async fn register_models(
    connection: &mut impl Statements,
    models: &[Model],
    first_seen: OffsetDateTime,
) -> Result<(), StoreError> {
    let first_seen = to_the_microsecond(first_seen);
    for model in models {
        let values: [&dyn Value; 7] = [
            &model.id,
            &model.role,
            &model.family,
            &Digest(model.sha256),
            &model.contract,
            &model.dim.map(i64::from),
            &first_seen,
        ];
        connection.execute(INSERT_MODEL, &values).await?;
    }
    Ok(())
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

/// Refuses a NUL character in the tenant, the format, the operation and the source, because Postgres cannot store it.
/// Refuses a number of a face that is not finite, because the databases store it differently. This runs before any
/// statement.
pub fn check_scan(scan: &NewScan) -> Result<(), StoreError> {
    check_text("tenant", &scan.tenant)?;
    check_text("format", &scan.image.format)?;
    check_text("operation", &scan.operation)?;
    if let Some(source) = &scan.source {
        check_source(source)?;
    }
    if let Some(embedding) = &scan.image_embedding
        && !embedding
            .vector
            .iter()
            .chain([&embedding.norm])
            .all(|value| value.is_finite())
    {
        return Err(StoreError::Invalid(
            "the vector of the image has a value that is not finite; save finite numbers".into(),
        ));
    }
    for (index, face) in scan.faces.iter().enumerate() {
        if let Some(field) = field_not_finite(face) {
            return Err(StoreError::Invalid(format!(
                "the {field} of face {index} has a value that is not finite; save finite numbers"
            )));
        }
    }
    Ok(())
}

/// Returns the name of the first field that has a number that is not finite.
fn field_not_finite(face: &NewFace) -> Option<&'static str> {
    let is_finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
    let landmarks = face.landmarks.as_ref().map(|points| points.as_flattened());
    let embedding = face.embedding.as_ref();
    let fields = [
        ("bbox", is_finite(&face.bbox.to_array())),
        ("score", is_finite(face.score.as_slice())),
        ("landmarks", landmarks.is_none_or(is_finite)),
        (
            "embedding",
            embedding.is_none_or(|it| it.norm.is_finite() && is_finite(&it.vector)),
        ),
    ];
    fields
        .into_iter()
        .find_map(|(name, is_finite)| (!is_finite).then_some(name))
}

/// Refuses an id or a URL with a NUL character, and an id that is too long.
pub(super) fn check_source(source: &Source) -> Result<(), StoreError> {
    let id = source.id.as_deref().unwrap_or_default();
    check_text("source id", id)?;
    check_text("source URL", source.url.as_deref().unwrap_or_default())?;
    if id.len() > MAX_SOURCE_ID {
        let length = id.len();
        return Err(StoreError::Invalid(format!(
            "the source id has {length} bytes; at most {MAX_SOURCE_ID} are allowed"
        )));
    }
    Ok(())
}

fn check_text(name: &str, text: &str) -> Result<(), StoreError> {
    if text.contains('\0') {
        return Err(StoreError::Invalid(format!(
            "the {name} contains a NUL character; remove it"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_key_separates_id_and_url() {
        let keys = [
            source_key(Some("a"), Some("b")),
            source_key(Some("ab"), None),
            source_key(None, Some("ab")),
            source_key(Some("b"), Some("a")),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(
                keys[..index].iter().all(|other| other.0 != key.0),
                "{index}"
            );
        }
    }
}
