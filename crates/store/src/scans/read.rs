//! Reading images with their scans, and faces.

use std::cmp::Reverse;

use uuid::Uuid;

use super::find::{IMAGE, IMAGES, add_faces};
use super::records::{
    ImageFilter, ImageSummary, ScanPage, Source, StoredFace, StoredImage, StoredScan,
};
use super::rows::sql;
use crate::call::{query, snapshot};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::pages::PageRequest;
use crate::parameters::params;
use crate::sizes::{count_within, scan_size, tree_size};
use crate::store::Store;
use crate::values::Many;

crate::prepared::statements! {
    /// SQLite stores a time as text with a fraction of any length, so this order is right only to the second.
    const SOURCES = "SELECT source_id, source_url, seen_at FROM image_sources WHERE image_id = :id \
         ORDER BY seen_at DESC LIMIT :limit", sorts "the sources of one image";

    const SCANS = concat!(
        sql!(scans),
        "WHERE s.image_id = :image AND s.id > :after AND s.id <= :last ORDER BY s.id"
    ), sorts "the scans of one image";

    const FACES_OF_SCANS = concat!(
        sql!(faces),
        "WHERE f.scan_id IN (SELECT id FROM scans WHERE image_id = :image AND id > :after AND id <= :last) \
         ORDER BY f.position"
    ), sorts "the faces of one image";

    /// The inner query chooses the scans first, so that no other scan is measured.
    const SCAN_SIZES = concat!(
        "SELECT s.id, CAST(512 + ",
        tree_size!("s.picture_quality"),
        " + ",
        tree_size!("s.devices"),
        " + ",
        scan_size!("s.id"),
        " AS bigint) AS bytes FROM scans s WHERE s.id IN \
         (SELECT id FROM scans WHERE image_id = :image AND id > :after ORDER BY id LIMIT :limit) ORDER BY s.id"
    ), sorts "the scans of one image";

    const FACE = concat!(
        sql!(faces),
        "WHERE f.id = :id AND (SELECT tenant FROM images WHERE id = f.image_id) = :tenant"
    );

    const LIST = concat!(
        "SELECT ",
        sql!(image_columns),
        " FROM images i WHERE i.tenant = :tenant AND i.id < :before ORDER BY i.id DESC LIMIT :limit"
    );

    /// An image can have several URLs of one source.
    const IDS_OF_SOURCE = "SELECT DISTINCT s.image_id AS id FROM image_sources s \
         WHERE s.source_id = :source AND s.image_id < :before \
         AND (SELECT i.tenant FROM images i WHERE i.id = s.image_id) = :tenant \
         ORDER BY s.image_id DESC LIMIT :limit";
}

impl Store {
    /// Returns an image with its newest sources and one page of its scans.
    pub async fn image(
        &self,
        tenant: &str,
        id: Uuid,
        page: ScanPage,
    ) -> Result<Option<StoredImage>, StoreError> {
        snapshot!(self, "image", |connection| {
            let Some(summary) = connection
                .fetch_optional(IMAGE, params!(tenant, id))
                .await?
            else {
                return Ok(None);
            };
            let limit = StoredImage::MAX_SOURCES as i64;
            let values = params!(id, limit);
            let mut sources: Vec<Source> = connection.fetch_all(SOURCES, values).await?;
            sources.sort_by_key(|source| source.seen_at);
            let (scans, next) = scans_of_image(connection, id, page).await?;
            Ok(Some(StoredImage {
                summary,
                sources,
                scans,
                next,
            }))
        })
    }

    /// Returns a face with its embedding.
    pub async fn face(&self, tenant: &str, id: Uuid) -> Result<Option<StoredFace>, StoreError> {
        query!(self, "face", |connection| {
            Ok(connection.fetch_optional(FACE, params!(tenant, id)).await?)
        })
    }

    /// Returns one page of the tenant's images, newest first.
    ///
    /// The order is that of the ids, which begin with a time. To get the next page, pass the last id of this one. Pages
    /// neither repeat nor skip an image while other images are added and deleted.
    pub async fn list_images(
        &self,
        tenant: &str,
        filter: &ImageFilter,
        page: PageRequest,
    ) -> Result<Vec<ImageSummary>, StoreError> {
        snapshot!(self, "list_images", |connection| {
            // The highest id of all comes after the id of every image.
            let before = page.after.unwrap_or(Uuid::max());
            let Some(source) = filter.source.clone() else {
                let values = params!(tenant, before, limit = page.limit);
                return Ok(connection.fetch_all(LIST, values).await?);
            };
            let values = params!(tenant, source, before, limit = page.limit);
            let ids: Vec<Uuid> = connection.fetch_all(IDS_OF_SOURCE, values).await?;
            if ids.is_empty() {
                return Ok(Vec::new());
            }
            let values = params!(tenant, ids = Many(&ids));
            let mut images: Vec<ImageSummary> = connection.fetch_all(IMAGES, values).await?;
            images.sort_by_key(|image| Reverse(image.id));
            Ok(images)
        })
    }
}

/// Returns one page of the scans of an image, and the id after which the next page begins.
async fn scans_of_image(
    connection: &mut Connection<'_>,
    image: Uuid,
    page: ScanPage,
) -> Result<(Vec<StoredScan>, Option<Uuid>), StoreError> {
    // The id of every scan comes after the lowest one.
    let after = page.after.unwrap_or(Uuid::nil());
    // One more scan than requested shows whether there is a next page.
    let limit = i64::from(page.limit) + 1;
    let values = params!(image, after, limit);
    let sizes: Vec<(Uuid, i64)> = connection.fetch_all(SCAN_SIZES, values).await?;
    let requested = sizes.iter().take(page.limit as usize);
    let count = count_within(page.max_bytes, requested.map(|(_, bytes)| *bytes));
    let Some(last) = count.checked_sub(1).map(|last| sizes[last].0) else {
        return Ok((Vec::new(), None));
    };
    let values = params!(image, after, last);
    let faces = connection.fetch_all(FACES_OF_SCANS, values).await?;
    let mut scans: Vec<StoredScan> = connection.fetch_all(SCANS, values).await?;
    add_faces(&mut scans, faces);
    Ok((scans, (count < sizes.len()).then_some(last)))
}
