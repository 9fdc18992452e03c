//! Erasing images and faces.

use uuid::Uuid;

use super::collections::{Origin, erase_enrollments_of};
use super::counts;
use super::faces::delete_face;
use super::records::{ErasedCounts, ErasureTarget, ImageToErase};
use crate::call::{change, query};
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::values::Many;

/// Selects images of a tenant by their ids. For many ids, Postgres may read all images of the tenant through the index of tenants, so
/// no index answers this comparison.
macro_rules! own {
    () => {
        "id IN (:images) AND coalesce(tenant, '') = :tenant"
    };
}

/// `$tables` has the image under the name `i`.
macro_rules! count {
    ($tables:literal) => {
        concat!(
            "SELECT count(*) AS count FROM (SELECT id FROM images WHERE ",
            own!(),
            ") i ",
            $tables
        )
    };
}

crate::prepared::statements! {
    const ONE = "SELECT id, NULL AS source_url FROM images \
         WHERE tenant = :tenant AND id > :after AND id = :image LIMIT :limit";

    const OF_SOURCE = "SELECT s.image_id AS id, NULL AS source_url FROM image_sources s \
         WHERE s.source_id = :source AND s.image_id > :after \
         AND (SELECT i.tenant FROM images i WHERE i.id = s.image_id) = :tenant \
         GROUP BY s.image_id ORDER BY s.image_id LIMIT :limit";

    /// The caller compares the hosts, because SQL cannot read a URL. A page has all URLs of its images.
    const WITH_URL = "SELECT i.id, s.source_url FROM \
         (SELECT id FROM images WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit) i \
         LEFT JOIN image_sources s ON s.image_id = i.id ORDER BY i.id";

    const OF_TENANT = "SELECT id, NULL AS source_url FROM images \
         WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit";

    const OWN = concat!("SELECT id FROM images WHERE ", own!());

    const COUNT_SCANS = count!("JOIN scans s ON s.image_id = i.id");

    const COUNT_FACES = count!("JOIN scans s ON s.image_id = i.id JOIN faces f ON f.scan_id = s.id");

    const COUNT_FACE_VECTORS = count!(
        "JOIN scans s ON s.image_id = i.id JOIN faces f ON f.scan_id = s.id \
         JOIN embeddings e ON e.face_id = f.id"
    );

    const COUNT_IMAGE_VECTORS =
        count!("JOIN scans s ON s.image_id = i.id JOIN image_embeddings e ON e.scan_id = s.id");

    const DELETE = concat!("DELETE FROM images WHERE ", own!());
}

impl Store {
    /// Returns images of a tenant that a target may include, after the image `after`, in order.
    pub async fn images_to_erase(
        &self,
        tenant: &str,
        target: &ErasureTarget,
        after: Uuid,
        limit: u32,
    ) -> Result<Vec<ImageToErase>, StoreError> {
        query!(self, "images_to_erase", no_limit, |connection| {
            let query = match target {
                ErasureTarget::Image(_) => ONE,
                ErasureTarget::Source(_) => OF_SOURCE,
                ErasureTarget::Host(_) => WITH_URL,
                ErasureTarget::Tenant => OF_TENANT,
                ErasureTarget::Face(_)
                | ErasureTarget::Batch(_)
                | ErasureTarget::Collection(_)
                | ErasureTarget::Subject(_)
                | ErasureTarget::Enrollment(_)
                | ErasureTarget::Person(_) => return Ok(Vec::new()),
            };
            let (image, source) = (target.image(), target.source());
            let values = params!(tenant, after, limit, image, source);
            Ok(connection.fetch_all(query, values).await?)
        })
    }

    /// Deletes images of a tenant with everything that was derived from them.
    pub async fn erase_images(
        &self,
        erasure: Uuid,
        tenant: &str,
        images: &[Uuid],
    ) -> Result<(), StoreError> {
        change!(self, "erase_images", |connection| {
            if images.is_empty() {
                return Ok(());
            }
            let images = params!(tenant, images = Many(images));
            let own: Vec<Uuid> = connection.fetch_all(OWN, images).await?;
            let enrollments = erase_enrollments_of(connection, Origin::Images(&own)).await?;
            let scans = connection.fetch_one(COUNT_SCANS, images).await?;
            let faces = connection.fetch_one(COUNT_FACES, images).await?;
            let of_faces: u64 = connection.fetch_one(COUNT_FACE_VECTORS, images).await?;
            let of_images: u64 = connection.fetch_one(COUNT_IMAGE_VECTORS, images).await?;
            let deleted = connection.execute(DELETE, images).await?;
            let counts = ErasedCounts {
                images: deleted,
                scans,
                faces,
                vectors: of_faces + of_images,
                enrollments,
                ..ErasedCounts::default()
            };
            counts::add(connection, erasure, counts).await
        })
    }

    /// Deletes a face and its vector.
    ///
    /// In the other scans of the image, a face is the same face if the IoU of the two boxes is at least 0.5. A scan that loses
    /// a face can no longer be returned from the cache. A response therefore never contains a deleted face, and never omits
    /// one without a new scan.
    pub async fn erase_face(
        &self,
        erasure: Uuid,
        tenant: &str,
        face: Uuid,
    ) -> Result<(), StoreError> {
        change!(self, "erase_face", |connection| {
            let counts = delete_face(connection, tenant, face).await?;
            counts::add(connection, erasure, counts).await
        })
    }
}
