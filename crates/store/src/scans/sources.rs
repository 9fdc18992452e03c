//! Where images were seen.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::check::check_source;
use super::records::Source;
use crate::call::change;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::to_the_microsecond;
use crate::values::Digest;

crate::prepared::statements! {
    const UPSERT_SOURCE = "INSERT INTO image_sources \
         (image_id, source_key, source_id, source_url, seen_at) VALUES (:image_id, :source_key, :source_id, :source_url, :seen_at) \
         ON CONFLICT (image_id, source_key) DO UPDATE SET seen_at = excluded.seen_at";

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
                add_source(connection, image_id, source).await?;
            }
            Ok(is_stored)
        })
    }
}

/// Adds a source to an image, or sets the time of a source that the image has.
pub(super) async fn add_source(
    connection: &mut Connection<'_>,
    image_id: Uuid,
    source: &Source,
) -> Result<(), StoreError> {
    let present = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (id, url) = (present(&source.id), present(&source.url));
    if id.is_none() && url.is_none() {
        return Ok(());
    }
    let key = source_key(id.as_deref(), url.as_deref());
    let seen_at = to_the_microsecond(source.seen_at);
    connection
        .execute(
            UPSERT_SOURCE,
            params!(
                image_id,
                source_key = key,
                source_id = id,
                source_url = url,
                seen_at
            ),
        )
        .await?;
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
