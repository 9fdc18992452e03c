//! Saving scans, several in one transaction with few statements.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::find::{add_faces, faces_of_scans, scans_by_keys};
use super::new_rows::{NewFaceRow, NewImageRow, NewScanRow, NewVectorRow, ScanToSave};
use super::records::{SavedScan, StoredScan};
use super::sources::add_sources;
use crate::call::change;
use crate::collections::detach_scans;
use crate::connection::{Connection, insert_rows, pieces};
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::record;
use crate::store::Store;
use crate::values::{Many, Rows};

crate::prepared::statements! {
    const DELETE = "DELETE FROM scans WHERE id IN (:scans)";

    const KEEP = "UPDATE scans SET batch_id = NULL WHERE id IN (:scans) AND batch_id IS NOT NULL";
}

/// Inserts images or finds them. The update locks their rows until the transaction ends, so that writers of the same image wait
/// for each other.
pub(super) fn upsert_images_text() -> String {
    format!(
        "INSERT INTO {} VALUES :rows ON CONFLICT (tenant, sha256) DO UPDATE \
         SET perceptual_hash = coalesce(images.perceptual_hash, excluded.perceptual_hash) \
         RETURNING id, tenant, sha256",
        NewImageRow::INTO
    )
}

const SCANS_PER_ROUND: usize = 64;

record! {
    struct ImageRow {
        id: Uuid,
        tenant: String,
        sha256: [u8; 32],
    }
}

impl Store {
    /// Records that a request was answered with a scan. The scan then stays when the batch that made it is deleted.
    pub async fn keep_scan(&self, scan: Uuid) -> Result<(), StoreError> {
        change!(self, "keep_scan", |connection| {
            let scans = params!(scans = Many(&[scan]));
            connection.execute(KEEP, scans).await?;
            Ok(())
        })
    }
}

/// Saves scans, in any order, and returns what [`Store::save_scan`] returns for each of them. Run it in a transaction.
///
/// The images are locked in one order, so that two transactions that save the same ones do not wait for each other.
pub(crate) async fn save_scans(
    connection: &mut Connection<'_>,
    scans: &[ScanToSave<'_>],
) -> Result<Vec<SavedScan>, StoreError> {
    let mut saved: Vec<(usize, SavedScan)> = Vec::with_capacity(scans.len());
    let mut waiting: Vec<(usize, ScanToSave<'_>)> = scans.iter().copied().enumerate().collect();
    waiting.sort_by_key(|(_, it)| it.image_key());
    // A round has one scan of each image, because a statement does not write a row twice.
    while !waiting.is_empty() {
        let mut images = HashSet::new();
        let (round, later): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(_, it)| images.len() < SCANS_PER_ROUND && images.insert(it.image_key()));
        let (places, round): (Vec<usize>, Vec<ScanToSave<'_>>) = round.into_iter().unzip();
        saved.extend(
            places
                .into_iter()
                .zip(save_round(connection, &round).await?),
        );
        waiting = later;
    }
    saved.sort_by_key(|(place, _)| *place);
    Ok(saved.into_iter().map(|(_, saved)| saved).collect())
}

/// Saves scans of different images.
async fn save_round(
    connection: &mut Connection<'_>,
    scans: &[ScanToSave<'_>],
) -> Result<Vec<SavedScan>, StoreError> {
    let images = upsert_images(connection, scans).await?;
    let sources = scans.iter().zip(&images);
    let sources = sources.filter_map(|(it, image)| Some((*image, it.scan.source.as_ref()?)));
    add_sources(connection, sources).await?;
    let mut kept = kept_scans(connection, scans, &images).await?;
    let mut saved = Vec::with_capacity(scans.len());
    let mut new = Vec::with_capacity(scans.len());
    for (ScanToSave { scan, batch }, image_id) in scans.iter().copied().zip(images) {
        saved.push(match kept.remove(&image_id) {
            Some(kept) => SavedScan::Kept(Box::new(kept)),
            None => {
                new.push(NewScanRow::new(scan, image_id, batch));
                SavedScan::Written { image_id }
            }
        });
    }
    insert_scans(connection, &new).await?;
    Ok(saved)
}

/// Returns the ids of the images in the order of the scans.
async fn upsert_images(
    connection: &mut Connection<'_>,
    scans: &[ScanToSave<'_>],
) -> Result<Vec<Uuid>, StoreError> {
    let rows: Result<Vec<_>, _> = scans.iter().map(|it| NewImageRow::new(it.scan)).collect();
    let rows = rows?;
    let rows: Vec<_> = rows.iter().map(NewImageRow::values).collect();
    let statement = upsert_images_text();
    let mut ids = HashMap::with_capacity(scans.len());
    for rows in pieces(&rows) {
        let values = params!(rows = Rows(rows));
        let found: Vec<ImageRow> = connection.fetch_all_text(&statement, values).await?;
        ids.extend(found.into_iter().map(|it| ((it.tenant, it.sha256), it.id)));
    }
    let id_of = |it: &ScanToSave<'_>| ids.get(&(it.scan.tenant.clone(), it.scan.image.sha256));
    let ids: Option<Vec<Uuid>> = scans.iter().map(|it| id_of(it).copied()).collect();
    ids.ok_or(StoreError::Refused(sqlx::Error::RowNotFound))
}

/// Returns the stored scans with the keys of these scans that can be returned from the cache, by their images. Deletes those that
/// cannot, because the new ones replace them.
async fn kept_scans(
    connection: &mut Connection<'_>,
    scans: &[ScanToSave<'_>],
    images: &[Uuid],
) -> Result<HashMap<Uuid, StoredScan>, StoreError> {
    let keys = images
        .iter()
        .zip(scans)
        .map(|(image, it)| (*image, it.scan.record.scan_key));
    let found = scans_by_keys(connection, &keys.collect::<HashMap<_, _>>()).await?;
    let (mut kept, replaced): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|scan| scan.record.answers_cache);
    if !replaced.is_empty() {
        let ids: Vec<Uuid> = replaced.iter().map(|scan| scan.id).collect();
        detach_scans(connection, &ids).await?;
        let values = params!(scans = Many(&ids));
        connection.execute(DELETE, values).await?;
    }
    if !kept.is_empty() {
        let ids: Vec<Uuid> = kept.iter().map(|scan| scan.id).collect();
        let faces = faces_of_scans(connection, &ids).await?;
        add_faces(&mut kept, faces);
    }
    let kept: HashMap<Uuid, StoredScan> =
        kept.into_iter().map(|scan| (scan.image_id, scan)).collect();
    // A request is answered with such a scan, so it stays when the batch that made it is deleted.
    let from_requests = images
        .iter()
        .zip(scans)
        .filter(|(_, it)| it.batch.is_none());
    let ids: Vec<Uuid> = from_requests
        .filter_map(|(image, _)| Some(kept.get(image)?.id))
        .collect();
    if !ids.is_empty() {
        let values = params!(scans = Many(&ids));
        connection.execute(KEEP, values).await?;
    }
    Ok(kept)
}

async fn insert_scans(
    connection: &mut Connection<'_>,
    scans: &[NewScanRow<'_>],
) -> Result<(), StoreError> {
    let rows: Vec<_> = scans.iter().map(NewScanRow::values).collect();
    insert_rows(connection, NewScanRow::INTO, &rows).await?;
    let vectors: Vec<_> = scans.iter().filter_map(NewVectorRow::from_scan).collect();
    let rows: Vec<_> = vectors.iter().map(NewVectorRow::values).collect();
    insert_rows(connection, NewVectorRow::INTO_SCANS, &rows).await?;
    let faces: Vec<_> = scans.iter().flat_map(NewFaceRow::all).collect();
    let rows: Vec<_> = faces.iter().map(NewFaceRow::values).collect();
    insert_rows(connection, NewFaceRow::INTO, &rows).await?;
    let vectors: Vec<_> = faces.iter().filter_map(NewVectorRow::from_face).collect();
    let rows: Vec<_> = vectors.iter().map(NewVectorRow::values).collect();
    insert_rows(connection, NewVectorRow::INTO_FACES, &rows).await?;
    Ok(())
}
