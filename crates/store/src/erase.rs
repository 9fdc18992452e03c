//! Erasing.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::StoreError;
use super::dialect::Statements;
use super::read;
use super::records::StoredFace;
use super::rows::IdRow;

/// From this IoU on, faces of two scans of one picture are the same face.
const SAME_FACE_IOU: f32 = 0.5;

/// Finds and locks the picture of a face. An update that changes nothing locks in both databases;
/// SQLite has no `FOR UPDATE`.
const LOCK_IMAGE_OF_FACE: &str = "UPDATE images SET tenant = tenant \
     WHERE tenant = $1 AND id = (SELECT image_id FROM faces WHERE id = $2) RETURNING id";

/// Erases a picture; whatever refers to it goes with it.
pub(super) async fn delete_image(
    connection: &mut impl Statements,
    tenant: &str,
    id: Uuid,
) -> Result<bool, StoreError> {
    let statement = "DELETE FROM images WHERE tenant = $1 AND id = $2";
    Ok(connection.execute(statement, &[&tenant, &id]).await? > 0)
}

/// Erases a face wherever it was found; [`super::Store::delete_face`] says how.
pub(super) async fn delete_face(
    connection: &mut impl Statements,
    tenant: &str,
    id: Uuid,
) -> Result<bool, StoreError> {
    let image: Option<IdRow> = connection
        .fetch_optional(LOCK_IMAGE_OF_FACE, &[&tenant, &id])
        .await?;
    let Some(image) = image else {
        return Ok(false);
    };
    let faces = read::faces_of_image(connection, image.id).await?;
    // It may have been erased while this call waited for the lock.
    let Some(face) = faces.iter().find(|face| face.id == id) else {
        return Ok(false);
    };
    let doomed: Vec<_> = faces
        .iter()
        .filter(|other| is_same_face(face, other))
        .collect();
    for face in &doomed {
        connection
            .execute("DELETE FROM faces WHERE id = $1", &[&face.id])
            .await?;
    }
    let scans: BTreeSet<_> = doomed.iter().map(|face| face.scan_id).collect();
    for scan_id in scans {
        let statement = "UPDATE scans SET answers_cache = $2 WHERE id = $1";
        connection.execute(statement, &[&scan_id, &false]).await?;
    }
    Ok(true)
}

/// Whether `other` is `face`, or the same face found by another scan. Within one scan overlapping
/// boxes are different faces: non-maximum suppression has seen to that.
fn is_same_face(face: &StoredFace, other: &StoredFace) -> bool {
    other.id == face.id
        || (other.scan_id != face.scan_id && other.bbox.iou(&face.bbox) >= SAME_FACE_IOU)
}
