//! Where images were seen.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::check::check_source;
use super::records::Source;
use crate::call::change;
use crate::connection::{Connection, pieces};
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::to_the_microsecond;
use crate::values::{Digest, Rows, Value};

crate::prepared::statements! {
    /// Locks the image, so that no other call deletes it meanwhile.
    const LOCK_IMAGE =
        "UPDATE images SET tenant = tenant WHERE tenant = :tenant AND id = :image_id RETURNING id";
}

impl Store {
    /// Records that a stored image was seen at a source.
    ///
    /// A source that the image already has gets the new time. Returns false if the tenant has no such image.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] when the source cannot be stored. The message names the field.
    pub async fn add_source(
        &self,
        tenant: &str,
        image_id: Uuid,
        source: &Source,
    ) -> Result<bool, StoreError> {
        check_source(source)?;
        change!(self, "add_source", |connection| {
            let is_stored = connection
                .exists(LOCK_IMAGE, params!(tenant, image_id))
                .await?;
            if is_stored {
                add_sources(connection, [(image_id, source)].into_iter()).await?;
            }
            Ok(is_stored)
        })
    }
}

/// A source of an image to be inserted.
pub(super) struct NewSourceRow {
    image_id: Uuid,
    key: Digest,
    id: Option<String>,
    url: Option<String>,
    seen_at: OffsetDateTime,
}

impl NewSourceRow {
    pub(super) const INTO: &'static str =
        "image_sources (image_id, source_key, source_id, source_url, seen_at)";

    /// Returns `None` for a source without a name and an address.
    pub(super) fn new(image_id: Uuid, source: &Source) -> Option<Self> {
        let present = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (id, url) = (present(&source.id), present(&source.url));
        if id.is_none() && url.is_none() {
            return None;
        }
        Some(Self {
            image_id,
            key: source_key(id.as_deref(), url.as_deref()),
            id,
            url,
            seen_at: to_the_microsecond(source.seen_at),
        })
    }

    pub(super) fn values(&self) -> [&dyn Value; 5] {
        [
            &self.image_id,
            &self.key,
            &self.id,
            &self.url,
            &self.seen_at,
        ]
    }
}

pub(super) fn add_sources_text() -> String {
    format!(
        "INSERT INTO {} VALUES :rows ON CONFLICT (image_id, source_key) DO UPDATE SET seen_at = excluded.seen_at",
        NewSourceRow::INTO
    )
}

/// Adds sources to different images, or sets the times of sources that the images have.
pub(super) async fn add_sources(
    connection: &mut Connection<'_>,
    sources: impl Iterator<Item = (Uuid, &Source)>,
) -> Result<(), StoreError> {
    let rows: Vec<_> = sources
        .filter_map(|(image_id, source)| NewSourceRow::new(image_id, source))
        .collect();
    let rows: Vec<_> = rows.iter().map(NewSourceRow::values).collect();
    let statement = add_sources_text();
    for rows in pieces(&rows) {
        let values = params!(rows = Rows(rows));
        connection.execute_text(&statement, values).await?;
    }
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
