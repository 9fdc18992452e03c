//! Finding stored scans.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::records::{CachedScan, ImageSummary, StoredFace, StoredScan};
use super::rows::{FaceRow, ImageRow, ScanRow, sql};
use crate::call::{query, snapshot};
use crate::connection::{Connection, placeholders};
use crate::error::StoreError;
use crate::record::record;
use crate::store::Store;
use crate::values::{Digest, Value};

pub(super) const IMAGE: &str = concat!(
    "SELECT ",
    sql!(image_columns),
    " FROM images i WHERE i.tenant = $1 AND i.id = $2"
);

const SCAN_BY_KEY: &str = concat!(sql!(scans), "WHERE s.image_id = $1 AND s.scan_key = $2");

const FIND_SCAN: &str = concat!(
    sql!(scans),
    "JOIN images i ON i.id = s.image_id \
     WHERE i.tenant = $1 AND i.sha256 = $2 AND s.scan_key = $3 AND s.answers_cache"
);

const FACES_OF_SCAN: &str = concat!(sql!(faces), "WHERE f.scan_id = $1 ORDER BY f.position");

impl Store {
    /// Returns the scan with this key of the image with this SHA-256, if that scan can be returned from the cache.
    pub async fn find_scan(
        &self,
        tenant: &str,
        sha256: &[u8; 32],
        scan_key: &[u8; 32],
    ) -> Result<Option<CachedScan>, StoreError> {
        snapshot!(self, "find_scan", |connection| {
            let (sha256, scan_key) = (Digest(*sha256), Digest(*scan_key));
            let Some(row) = connection
                .fetch_optional::<ScanRow>(FIND_SCAN, &[&tenant, &sha256, &scan_key])
                .await?
            else {
                return Ok(None);
            };
            let scan = with_faces(connection, row).await?;
            let image = connection
                .fetch_optional::<ImageRow>(IMAGE, &[&tenant, &scan.image_id])
                .await?;
            let image = image.map(ImageSummary::try_from).transpose()?;
            Ok(image.map(|image| CachedScan { image, scan }))
        })
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
            let key = Digest(*scan_key);
            let mut found = Vec::new();
            for sha256s in sha256s.chunks(IMAGES_PER_QUERY) {
                let digests: Vec<Digest> = sha256s.iter().map(|sha256| Digest(*sha256)).collect();
                let mut values: Vec<&dyn Value> = vec![&tenant, &key];
                values.extend(digests.iter().map(|digest| digest as &dyn Value));
                let query = format!(
                    "SELECT i.sha256, s.id FROM images i JOIN scans s ON s.image_id = i.id \
                     WHERE i.tenant = $1 AND s.scan_key = $2 AND s.answers_cache AND i.sha256 IN {}",
                    placeholders(3, 1, sha256s.len())
                );
                let rows: Vec<CachedIdRow> =
                    connection.fetch_all(AssertSqlSafe(query), &values).await?;
                found.extend(rows.into_iter().map(|row| (row.sha256.0, row.id)));
            }
            Ok(found)
        })
    }

    /// Returns the tenant's scans with these ids, in any order. Ids without a scan are skipped.
    pub async fn scans(&self, tenant: &str, ids: &[Uuid]) -> Result<Vec<CachedScan>, StoreError> {
        snapshot!(self, "scans", |connection| {
            const IDS_PER_QUERY: usize = 500;
            let mut found = Vec::with_capacity(ids.len());
            for ids in ids.chunks(IDS_PER_QUERY) {
                let values: Vec<&dyn Value> = ids.iter().map(|id| id as &dyn Value).collect();
                let list = placeholders(1, 1, ids.len());
                let query = format!(
                    concat!(sql!(faces), "WHERE f.scan_id IN {} ORDER BY f.position"),
                    list
                );
                let rows: Vec<FaceRow> =
                    connection.fetch_all(AssertSqlSafe(query), &values).await?;
                let mut faces: HashMap<Uuid, Vec<StoredFace>> = HashMap::new();
                for row in rows {
                    let face = StoredFace::try_from(row)?;
                    faces.entry(face.scan_id).or_default().push(face);
                }
                let query = format!(concat!(sql!(scans), "WHERE s.id IN {}"), list);
                let scans: Vec<ScanRow> =
                    connection.fetch_all(AssertSqlSafe(query), &values).await?;
                let mut images = images_of(connection, tenant, &scans).await?;
                for scan in scans {
                    let Some(image) = images.remove(&scan.image_id) else {
                        continue;
                    };
                    images.insert(scan.image_id, image.clone());
                    let faces = faces.remove(&scan.id).unwrap_or_default();
                    let scan = scan.with_faces(faces)?;
                    found.push(CachedScan { image, scan });
                }
            }
            Ok(found)
        })
    }
}

record! {
    struct CachedIdRow {
        sha256: Digest,
        id: Uuid,
    }
}

/// Returns the tenant's images of some scans by their ids.
async fn images_of(
    connection: &mut Connection<'_>,
    tenant: &str,
    scans: &[ScanRow],
) -> Result<HashMap<Uuid, ImageSummary>, StoreError> {
    if scans.is_empty() {
        return Ok(HashMap::new());
    }
    let mut values: Vec<&dyn Value> = vec![&tenant];
    values.extend(scans.iter().map(|scan| &scan.image_id as &dyn Value));
    let query = format!(
        concat!(
            "SELECT ",
            sql!(image_columns),
            " FROM images i WHERE i.tenant = $1 AND i.id IN {}"
        ),
        placeholders(2, 1, scans.len())
    );
    let rows: Vec<ImageRow> = connection.fetch_all(AssertSqlSafe(query), &values).await?;
    let images = rows.into_iter().map(ImageSummary::try_from);
    images
        .map(|image| image.map(|image| (image.id, image)))
        .collect()
}

/// Returns the scan of an image with this key, even if it cannot be returned from the cache.
pub(super) async fn scan_by_key(
    connection: &mut Connection<'_>,
    image_id: Uuid,
    scan_key: &[u8; 32],
) -> Result<Option<ScanRow>, StoreError> {
    Ok(connection
        .fetch_optional(SCAN_BY_KEY, &[&image_id, &Digest(*scan_key)])
        .await?)
}

/// Reads the faces of a scan.
pub(super) async fn with_faces(
    connection: &mut Connection<'_>,
    scan: ScanRow,
) -> Result<StoredScan, StoreError> {
    let rows: Vec<FaceRow> = connection.fetch_all(FACES_OF_SCAN, &[&scan.id]).await?;
    let faces = rows
        .into_iter()
        .map(StoredFace::try_from)
        .collect::<Result<_, _>>()?;
    scan.with_faces(faces)
}

#[cfg(test)]
crate::prepared::statements!(IMAGE, SCAN_BY_KEY, FIND_SCAN, FACES_OF_SCAN);
