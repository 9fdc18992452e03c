//! Deleting faces.

use std::collections::BTreeSet;

use facescan_imaging::geometry::BBox;
use uuid::Uuid;

use super::collections::{Origin, erase_enrollments_of};
use super::records::ErasedCounts;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::record;

/// The least IoU at which faces of two scans of one image are the same face.
const SAME_FACE_IOU: f32 = 0.5;

crate::prepared::statements! {
    /// Finds and locks the image of a face. SQLite has no `FOR UPDATE`, but an update that changes nothing locks the row in
    /// both databases.
    const LOCK_IMAGE_OF_FACE = "UPDATE images SET tenant = tenant \
         WHERE tenant = :tenant AND id = (SELECT image_id FROM faces WHERE id = :id) RETURNING id";

    /// Without results and vectors, because an image can have any number of scans.
    const BOXES_OF_IMAGE = "SELECT f.id, f.scan_id, f.x1, f.y1, f.x2, f.y2, \
         EXISTS (SELECT 1 FROM embeddings e WHERE e.face_id = f.id) AS has_vector \
         FROM faces f WHERE f.scan_id IN (SELECT id FROM scans WHERE image_id = :image)";

    const DELETE = "DELETE FROM faces WHERE id = :id";

    const END_CACHING = "UPDATE scans SET answers_cache = :answers_cache WHERE id = :scan_id";
}

record! {
    struct FaceBox {
        id: Uuid,
        scan_id: Uuid,
        x1: f32,
        y1: f32,
        x2: f32,
        y2: f32,
        has_vector: bool,
    }
}

impl FaceBox {
    fn bbox(&self) -> BBox {
        let [x1, y1, x2, y2] = [self.x1, self.y1, self.x2, self.y2];
        BBox { x1, y1, x2, y2 }
    }
}

/// Deletes a face in every scan; see [`Store::erase_face`](crate::Store::erase_face). Returns what it has deleted.
pub(super) async fn delete_face(
    connection: &mut Connection<'_>,
    tenant: &str,
    id: Uuid,
) -> Result<ErasedCounts, StoreError> {
    let image: Option<Uuid> = connection
        .fetch_optional(LOCK_IMAGE_OF_FACE, params!(tenant, id))
        .await?;
    let Some(image) = image else {
        return Ok(ErasedCounts::default());
    };
    let faces: Vec<FaceBox> = connection.fetch_all(BOXES_OF_IMAGE, params!(image)).await?;
    // Another call may have deleted the face while this one waited for the lock.
    let Some(face) = faces.iter().find(|face| face.id == id) else {
        return Ok(ErasedCounts::default());
    };
    let same_faces: Vec<_> = faces
        .iter()
        .filter(|other| is_same_face(face, other))
        .collect();
    // The foreign key would delete them too, but it neither counts them nor locks their collections in order.
    let ids: Vec<Uuid> = same_faces.iter().map(|face| face.id).collect();
    let enrollments = erase_enrollments_of(connection, Origin::Faces(&ids)).await?;
    for face in &same_faces {
        connection.execute(DELETE, params!(id = face.id)).await?;
    }
    let scans: BTreeSet<_> = same_faces.iter().map(|face| face.scan_id).collect();
    for scan_id in scans {
        connection
            .execute(END_CACHING, params!(scan_id, answers_cache = false))
            .await?;
    }
    let vectors = same_faces.iter().filter(|face| face.has_vector);
    Ok(ErasedCounts {
        faces: same_faces.len() as u64,
        vectors: vectors.count() as u64,
        enrollments,
        ..ErasedCounts::default()
    })
}

/// Returns whether `other` is `face`, or the same face in another scan.
///
/// Faces of one scan are always different, even if their boxes overlap: non-maximum suppression kept both.
fn is_same_face(face: &FaceBox, other: &FaceBox) -> bool {
    other.id == face.id
        || (other.scan_id != face.scan_id && other.bbox().iou(&face.bbox()) >= SAME_FACE_IOU)
}
