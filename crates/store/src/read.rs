//! Reading scans, images and faces. A function that runs several queries needs a transaction that sees one state of the rows.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::StoreError;
use super::dialect::{Statements, placeholders};
use super::record::record;
use super::records::{
    CachedScan, ImageFilter, ImageSummary, PageRequest, ScanPage, Source, StoredFace, StoredImage,
    StoredScan,
};
use super::rows::{FaceRow, ImageRow, ScanRow, SourceRow};
use super::sizes::{count_within, scan_size, tree_size};
use super::values::{Digest, Value};

/// The column lists of the queries, so that each list exists once.
macro_rules! sql {
    (image_columns) => {
        "i.id, i.sha256, i.byte_size, i.width, i.height, i.format, i.orientation, \
         i.perceptual_hash, i.created_at"
    };
    (scans) => {
        "SELECT s.id, s.image_id, s.scan_key, s.operation, s.detector_id, s.detector_sha256, \
         s.embedder_id, s.embedder_contract, s.picture_quality, s.devices, s.answers_cache, s.created_at, \
         s.batch_id, v.contract, v.precision, v.dim, v.norm, v.vector \
         FROM scans s LEFT JOIN image_embeddings v ON v.scan_id = s.id "
    };
    (faces) => {
        "SELECT f.id, f.scan_id, f.image_id, f.position, f.x1, f.y1, f.x2, f.y2, f.score, \
         f.landmarks, f.results, e.contract, e.precision, e.dim, e.norm, e.vector \
         FROM faces f LEFT JOIN embeddings e ON e.face_id = f.id "
    };
}

const IMAGE: &str = concat!(
    "SELECT ",
    sql!(image_columns),
    " FROM images i WHERE i.tenant = $1 AND i.id = $2"
);
/// SQLite stores a time as text with a fraction of any length, so this order is right only to the second.
const SOURCES: &str = "SELECT source_id, source_url, seen_at FROM image_sources WHERE image_id = $1 \
     ORDER BY seen_at DESC LIMIT $2";
const SCANS: &str = concat!(
    sql!(scans),
    "WHERE s.image_id = $1 AND s.id > $2 AND s.id <= $3 ORDER BY s.id"
);
const FACES_OF_SCANS: &str = concat!(
    sql!(faces),
    "WHERE f.scan_id IN (SELECT id FROM scans WHERE image_id = $1 AND id > $2 AND id <= $3) \
     ORDER BY f.position"
);
/// The inner query chooses the scans first, so that no other scan is measured.
const SCAN_SIZES: &str = concat!(
    "SELECT s.id, CAST(512 + ",
    tree_size!("s.picture_quality"),
    " + ",
    tree_size!("s.devices"),
    " + ",
    scan_size!("s.id"),
    " AS bigint) AS bytes FROM scans s WHERE s.id IN \
     (SELECT id FROM scans WHERE image_id = $1 AND id > $2 ORDER BY id LIMIT $3) ORDER BY s.id"
);
const SCAN_BY_KEY: &str = concat!(sql!(scans), "WHERE s.image_id = $1 AND s.scan_key = $2");
const FIND_SCAN: &str = concat!(
    sql!(scans),
    "JOIN images i ON i.id = s.image_id \
     WHERE i.tenant = $1 AND i.sha256 = $2 AND s.scan_key = $3 AND s.answers_cache"
);
const FACES_OF_SCAN: &str = concat!(sql!(faces), "WHERE f.scan_id = $1 ORDER BY f.position");
const FACE: &str = concat!(
    sql!(faces),
    "JOIN images i ON i.id = f.image_id WHERE i.tenant = $1 AND f.id = $2"
);
const LIST: &str = concat!(
    "SELECT ",
    sql!(image_columns),
    " FROM images i WHERE i.tenant = $1 AND i.id < $2 ORDER BY i.id DESC LIMIT $3"
);
const LIST_OF_SOURCE: &str = concat!(
    "SELECT ",
    sql!(image_columns),
    " FROM images i WHERE i.tenant = $1 AND i.id IN \
     (SELECT image_id FROM image_sources WHERE source_id = $4 AND image_id < $2) \
     ORDER BY i.id DESC LIMIT $3"
);

/// Checks that the database answers and has its tables.
pub(super) async fn ping(connection: &mut impl Statements) -> Result<(), StoreError> {
    connection
        .execute("SELECT 1 FROM images LIMIT 1", &[])
        .await?;
    Ok(())
}

/// Returns the scan with this key of the image with this SHA-256, if it can be returned from the cache.
pub(super) async fn find_scan(
    connection: &mut impl Statements,
    tenant: &str,
    sha256: &[u8; 32],
    scan_key: &[u8; 32],
) -> Result<Option<CachedScan>, StoreError> {
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
}

record! {
    struct CachedIdRow {
        sha256: Digest,
        id: Uuid,
    }
}

/// Returns the ids of cached scans; see [`super::Store::cached_scan_ids`].
pub(super) async fn cached_scan_ids(
    connection: &mut impl Statements,
    (tenant, scan_key): (&str, &[u8; 32]),
    sha256s: &[[u8; 32]],
) -> Result<Vec<([u8; 32], Uuid)>, StoreError> {
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
        let rows: Vec<CachedIdRow> = connection.fetch_all(AssertSqlSafe(query), &values).await?;
        found.extend(rows.into_iter().map(|row| (row.sha256.0, row.id)));
    }
    Ok(found)
}

/// Returns the scans of the tenant with these ids, each with its image. Ids without a scan are skipped.
pub(super) async fn scans(
    connection: &mut impl Statements,
    tenant: &str,
    ids: &[Uuid],
) -> Result<Vec<CachedScan>, StoreError> {
    const IDS_PER_QUERY: usize = 500;
    let mut found = Vec::with_capacity(ids.len());
    for ids in ids.chunks(IDS_PER_QUERY) {
        let values: Vec<&dyn Value> = ids.iter().map(|id| id as &dyn Value).collect();
        let list = placeholders(1, 1, ids.len());
        let query = format!(
            concat!(sql!(faces), "WHERE f.scan_id IN {} ORDER BY f.position"),
            list
        );
        let rows: Vec<FaceRow> = connection.fetch_all(AssertSqlSafe(query), &values).await?;
        let mut faces: HashMap<Uuid, Vec<StoredFace>> = HashMap::new();
        for row in rows {
            let face = StoredFace::try_from(row)?;
            faces.entry(face.scan_id).or_default().push(face);
        }
        let query = format!(concat!(sql!(scans), "WHERE s.id IN {}"), list);
        let scans: Vec<ScanRow> = connection.fetch_all(AssertSqlSafe(query), &values).await?;
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
}

/// Returns the tenant's images of some scans by their ids.
async fn images_of(
    connection: &mut impl Statements,
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
    connection: &mut impl Statements,
    image_id: Uuid,
    scan_key: &[u8; 32],
) -> Result<Option<ScanRow>, StoreError> {
    Ok(connection
        .fetch_optional(SCAN_BY_KEY, &[&image_id, &Digest(*scan_key)])
        .await?)
}

/// Reads the faces of a scan.
pub(super) async fn with_faces(
    connection: &mut impl Statements,
    scan: ScanRow,
) -> Result<StoredScan, StoreError> {
    let rows: Vec<FaceRow> = connection.fetch_all(FACES_OF_SCAN, &[&scan.id]).await?;
    let faces = rows
        .into_iter()
        .map(StoredFace::try_from)
        .collect::<Result<_, _>>()?;
    scan.with_faces(faces)
}

/// Returns an image with its newest sources and one page of its scans.
pub(super) async fn image(
    connection: &mut impl Statements,
    tenant: &str,
    id: Uuid,
    page: ScanPage,
) -> Result<Option<StoredImage>, StoreError> {
    let Some(row) = connection
        .fetch_optional::<ImageRow>(IMAGE, &[&tenant, &id])
        .await?
    else {
        return Ok(None);
    };
    let limit = StoredImage::MAX_SOURCES as i64;
    let sources: Vec<SourceRow> = connection.fetch_all(SOURCES, &[&id, &limit]).await?;
    let mut sources: Vec<_> = sources.into_iter().map(Source::from).collect();
    sources.sort_by_key(|source| source.seen_at);
    let (scans, next) = scans_of_image(connection, id, page).await?;
    Ok(Some(StoredImage {
        summary: row.try_into()?,
        sources,
        scans,
        next,
    }))
}

record! {
    struct ScanSizeRow {
        id: Uuid,
        bytes: i64,
    }
}

/// Returns one page of the scans of an image, and the id after which the next page begins.
async fn scans_of_image(
    connection: &mut impl Statements,
    image: Uuid,
    page: ScanPage,
) -> Result<(Vec<StoredScan>, Option<Uuid>), StoreError> {
    // The id of every scan comes after the lowest one.
    let after = page.after.unwrap_or(Uuid::nil());
    // One more scan than requested shows whether there is a next page.
    let limit = i64::from(page.limit) + 1;
    let values: [&dyn Value; 3] = [&image, &after, &limit];
    let sizes: Vec<ScanSizeRow> = connection.fetch_all(SCAN_SIZES, &values).await?;
    let requested = sizes.iter().take(page.limit as usize);
    let count = count_within(page.max_bytes, requested.map(|row| row.bytes));
    let Some(last) = count.checked_sub(1).map(|last| sizes[last].id) else {
        return Ok((Vec::new(), None));
    };
    let values: [&dyn Value; 3] = [&image, &after, &last];
    let mut faces: HashMap<Uuid, Vec<StoredFace>> = HashMap::new();
    let rows: Vec<FaceRow> = connection.fetch_all(FACES_OF_SCANS, &values).await?;
    for row in rows {
        let face = StoredFace::try_from(row)?;
        faces.entry(face.scan_id).or_default().push(face);
    }
    let rows: Vec<ScanRow> = connection.fetch_all(SCANS, &values).await?;
    let scans = rows.into_iter().map(|scan| {
        let faces = faces.remove(&scan.id).unwrap_or_default();
        scan.with_faces(faces)
    });
    let scans = scans.collect::<Result<_, _>>()?;
    Ok((scans, (count < sizes.len()).then_some(last)))
}

/// Returns one face.
pub(super) async fn face(
    connection: &mut impl Statements,
    tenant: &str,
    id: Uuid,
) -> Result<Option<StoredFace>, StoreError> {
    let row: Option<FaceRow> = connection.fetch_optional(FACE, &[&tenant, &id]).await?;
    row.map(StoredFace::try_from).transpose()
}

/// Returns one page of images, newest first.
pub(super) async fn list_images(
    connection: &mut impl Statements,
    tenant: &str,
    filter: &ImageFilter,
    page: PageRequest,
) -> Result<Vec<ImageSummary>, StoreError> {
    // The highest id of all comes after the id of every image.
    let before = page.after.unwrap_or(Uuid::max());
    let limit = i64::from(page.limit);
    let rows: Vec<ImageRow> = match &filter.source {
        None => {
            connection
                .fetch_all(LIST, &[&tenant, &before, &limit])
                .await?
        }
        Some(source) => {
            connection
                .fetch_all(LIST_OF_SOURCE, &[&tenant, &before, &limit, source])
                .await?
        }
    };
    rows.into_iter().map(ImageSummary::try_from).collect()
}
