//! Erasing images and faces.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::collections::erase_enrolments_of;
use super::counts;
use super::faces::delete_face;
use super::records::{ErasedCounts, ErasureTarget, ImageToErase};
use crate::call::{change, query};
use crate::connection::{Connection, placeholders};
use crate::error::StoreError;
use crate::record::record;
use crate::rows::{CountRow, IdRow};
use crate::store::Store;
use crate::values::Value;

const ONE: &str = "SELECT id, NULL AS source_url FROM images \
     WHERE tenant = $1 AND id > $2 AND id = $4 LIMIT $3";

const OF_SOURCE: &str = "SELECT id, NULL AS source_url FROM images WHERE tenant = $1 AND id > $2 \
     AND id IN (SELECT image_id FROM image_sources WHERE source_id = $4 AND image_id > $2) \
     ORDER BY id LIMIT $3";

/// The caller compares the hosts, because SQL cannot read a URL. A page has all URLs of its images.
const WITH_URL: &str = "SELECT i.id, s.source_url FROM \
     (SELECT id FROM images WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3) i \
     LEFT JOIN image_sources s ON s.image_id = i.id ORDER BY i.id";

const OF_TENANT: &str = "SELECT id, NULL AS source_url FROM images \
     WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";

record! {
    struct ImageToEraseRow {
        id: Uuid,
        source_url: Option<String>,
    }
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
            let limit = i64::from(limit);
            let mut values: Vec<&dyn Value> = vec![&tenant, &after, &limit];
            let query = match target {
                ErasureTarget::Image(id) => {
                    values.push(id);
                    ONE
                }
                ErasureTarget::Source(source) => {
                    values.push(source);
                    OF_SOURCE
                }
                ErasureTarget::Host(_) => WITH_URL,
                ErasureTarget::Tenant => OF_TENANT,
                ErasureTarget::Face(_)
                | ErasureTarget::Batch(_)
                | ErasureTarget::Collection(_)
                | ErasureTarget::Subject(_)
                | ErasureTarget::Enrolment(_)
                | ErasureTarget::Person(_) => return Ok(Vec::new()),
            };
            let rows: Vec<ImageToEraseRow> = connection.fetch_all(query, &values).await?;
            Ok(rows
                .into_iter()
                .map(|row| ImageToErase {
                    id: row.id,
                    source_url: row.source_url,
                })
                .collect())
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
            let own: Vec<Uuid> = own_images(connection, tenant, images).await?;
            let enrolments = erase_enrolments_of(connection, "image_id", &own).await?;
            let list = placeholders(2, 1, images.len());
            let mut values: Vec<&dyn Value> = vec![&tenant];
            values.extend(images.iter().map(|id| id as &dyn Value));
            let of_images =
                format!("JOIN images i ON i.id = {{of}} WHERE i.tenant = $1 AND i.id IN {list}");
            let of = |column: &str| of_images.replace("{of}", column);
            let scans = count(connection, format!("scans s {}", of("s.image_id")), &values).await?;
            let faces = count(connection, format!("faces f {}", of("f.image_id")), &values).await?;
            let of_faces = format!(
                "embeddings e JOIN faces f ON f.id = e.face_id {}",
                of("f.image_id")
            );
            let of_scans = format!(
                "image_embeddings e JOIN scans s ON s.id = e.scan_id {}",
                of("s.image_id")
            );
            let vectors = count(connection, of_faces, &values).await?
                + count(connection, of_scans, &values).await?;
            let statement = format!("DELETE FROM images WHERE tenant = $1 AND id IN {list}");
            let deleted = connection
                .execute(AssertSqlSafe(statement), &values)
                .await?;
            let counts = ErasedCounts {
                images: deleted,
                scans,
                faces,
                vectors,
                enrolments,
                ..ErasedCounts::default()
            };
            counts::add(connection, erasure, counts).await
        })
    }

    /// Deletes a face and its vector.
    ///
    /// In the other scans of the image, a face is the same face if the IoU of the two boxes is at least 0.5. A scan that loses
    /// a face can no longer be returned from the cache. An answer therefore never contains a deleted face, and never omits
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

/// Returns the images that belong to the tenant.
async fn own_images(
    connection: &mut Connection<'_>,
    tenant: &str,
    images: &[Uuid],
) -> Result<Vec<Uuid>, StoreError> {
    let list = placeholders(2, 1, images.len());
    let query = format!("SELECT id FROM images WHERE tenant = $1 AND id IN {list}");
    let mut values: Vec<&dyn Value> = vec![&tenant];
    values.extend(images.iter().map(|id| id as &dyn Value));
    let rows: Vec<IdRow> = connection.fetch_all(AssertSqlSafe(query), &values).await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

async fn count(
    connection: &mut Connection<'_>,
    from: String,
    values: &[&dyn Value],
) -> Result<u64, StoreError> {
    let query = format!("SELECT count(*) AS count FROM {from}");
    let rows: Vec<CountRow> = connection.fetch_all(AssertSqlSafe(query), values).await?;
    Ok(rows
        .first()
        .map_or(0, |row| row.count.try_into().unwrap_or(0)))
}

#[cfg(test)]
crate::prepared::statements!(ONE, OF_SOURCE, WITH_URL, OF_TENANT);
