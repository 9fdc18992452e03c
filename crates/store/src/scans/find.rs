//! Finding stored scans.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::records::{CachedScan, ImageSummary, StoredFace, StoredScan};
use super::rows::sql;
use crate::call::snapshot;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::values::Many;

crate::prepared::statements! {
    pub(super) const IMAGE = concat!(
        "SELECT ",
        sql!(image_columns),
        " FROM images i WHERE i.tenant = :tenant AND i.id = :id"
    );

    /// For many ids, Postgres may read all images of the tenant through the index of tenants, so no index answers the second
    /// comparison.
    pub(super) const IMAGES = concat!(
        "SELECT ",
        sql!(image_columns),
        " FROM images i WHERE i.id IN (:ids) AND coalesce(i.tenant, '') = :tenant"
    );

    const SCANS = concat!(sql!(scans), "WHERE s.id IN (:ids)");

    const FACES_BY_SCANS = concat!(sql!(faces), "WHERE f.scan_id IN (:ids) ORDER BY f.position"),
        sorts "the faces of a few scans";

    const SCANS_BY_KEYS = concat!(
        sql!(scans),
        "WHERE s.image_id IN (:images) AND s.scan_key IN (:scan_keys)"
    );

    const FIND_SCAN = concat!(
        sql!(scans),
        sql!(with_key)
    );

    const FACES_OF_SCAN = concat!(sql!(faces), "WHERE f.scan_id = :id ORDER BY f.position");
}

impl Store {
    /// Returns the scan with this key of the image with this SHA-256, if that scan can be returned from the cache.
    pub async fn find_scan(
        &self,
        tenant: &str,
        sha256: &[u8; 32],
        scan_key: &[u8; 32],
    ) -> Result<Option<CachedScan>, StoreError> {
        // Most images are new.
        let has_scan = Box::pin(self.has_scan(tenant, sha256, scan_key));
        if !self.observe("find_scan", has_scan).await? {
            return Ok(None);
        }
        let values = params!(tenant, sha256 = *sha256, scan_key = *scan_key);
        snapshot!(self, "read_scan", |connection| {
            let Some(mut scan) = connection
                .fetch_optional::<StoredScan>(FIND_SCAN, values)
                .await?
            else {
                return Ok(None);
            };
            scan.faces = faces_of_scan(connection, scan.id).await?;
            let image = connection
                .fetch_optional(IMAGE, params!(tenant, id = scan.image_id))
                .await?;
            Ok(image.map(|image| CachedScan { image, scan }))
        })
    }

    /// Returns the tenant's scans with these ids, in any order. Ids without a scan are skipped.
    pub async fn scans(&self, tenant: &str, ids: &[Uuid]) -> Result<Vec<CachedScan>, StoreError> {
        snapshot!(self, "scans", |connection| {
            const IDS_PER_QUERY: usize = 500;
            let mut found = Vec::with_capacity(ids.len());
            for ids in ids.chunks(IDS_PER_QUERY) {
                let values = params!(ids = Many(ids));
                let faces = connection.fetch_all(FACES_BY_SCANS, values).await?;
                let mut scans: Vec<StoredScan> = connection.fetch_all(SCANS, values).await?;
                add_faces(&mut scans, faces);
                let images = images_of(connection, tenant, &scans).await?;
                found.extend(scans.into_iter().filter_map(|scan| {
                    let image = images.get(&scan.image_id)?.clone();
                    Some(CachedScan { image, scan })
                }));
            }
            Ok(found)
        })
    }
}

/// Returns the tenant's images of some scans by their ids.
async fn images_of(
    connection: &mut Connection<'_>,
    tenant: &str,
    scans: &[StoredScan],
) -> Result<HashMap<Uuid, ImageSummary>, StoreError> {
    if scans.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<Uuid> = scans.iter().map(|scan| scan.image_id).collect();
    let values = params!(tenant, ids = Many(&ids));
    let images: Vec<ImageSummary> = connection.fetch_all(IMAGES, values).await?;
    Ok(images.into_iter().map(|image| (image.id, image)).collect())
}

/// Gives the faces to their scans.
pub(super) fn add_faces(scans: &mut [StoredScan], faces: Vec<StoredFace>) {
    let mut by_scan: HashMap<Uuid, Vec<StoredFace>> = HashMap::new();
    for face in faces {
        by_scan.entry(face.scan_id).or_default().push(face);
    }
    for scan in scans {
        scan.faces = by_scan.remove(&scan.id).unwrap_or_default();
    }
}

/// Returns the scans of images that have the key of their image, without their faces, even if they cannot be returned from the
/// cache.
pub(super) async fn scans_by_keys(
    connection: &mut Connection<'_>,
    keys: &HashMap<Uuid, [u8; 32]>,
) -> Result<Vec<StoredScan>, StoreError> {
    let (images, scan_keys): (Vec<Uuid>, Vec<[u8; 32]>) = keys.iter().unzip();
    let scan_keys: HashSet<_> = scan_keys.into_iter().collect();
    let scan_keys: Vec<_> = scan_keys.into_iter().collect();
    let values = params!(images = Many(&images), scan_keys = Many(&scan_keys));
    let mut scans: Vec<StoredScan> = connection.fetch_all(SCANS_BY_KEYS, values).await?;
    scans.retain(|scan| keys.get(&scan.image_id) == Some(&scan.record.scan_key));
    Ok(scans)
}

/// Returns the faces of scans.
pub(super) async fn faces_of_scans(
    connection: &mut Connection<'_>,
    scans: &[Uuid],
) -> Result<Vec<StoredFace>, StoreError> {
    let values = params!(ids = Many(scans));
    Ok(connection.fetch_all(FACES_BY_SCANS, values).await?)
}

/// Returns the faces of a scan.
pub(super) async fn faces_of_scan(
    connection: &mut Connection<'_>,
    scan: Uuid,
) -> Result<Vec<StoredFace>, StoreError> {
    let values = params!(id = scan);
    Ok(connection.fetch_all(FACES_OF_SCAN, values).await?)
}
