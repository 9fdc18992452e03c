//! One entry of a submission: an image with the data of its caller.

use std::borrow::Cow;

use bytes::Bytes;
use facescan_pipeline::{
    core::{
        error::InvalidOption,
        image_file::{ContentHash, content_hash},
        options::{source_text, source_url_text},
    },
    ingest::{error::IngestError, fetch::FetchError, intake::Intake, source::Content},
};
use facescan_store::{JsonText, NewItem};
use thiserror::Error;

/// The maximum length of the caller's id, in bytes. Postgres allows 2704 bytes for an index entry.
const MAX_ID_BYTES: usize = 512;

/// An entry of a request.
#[derive(Clone, Debug, Default)]
pub struct ItemEntry {
    /// The caller's id. A batch has each id once.
    pub id: Option<String>,
    /// The image.
    pub content: Option<Content>,
    /// The caller's name for the source.
    pub source: Option<String>,
    /// The address where the image was found.
    pub source_url: Option<String>,
    /// The caller's own data.
    pub metadata: Option<JsonText>,
}

/// Why an entry is refused.
#[derive(Debug, Error)]
pub enum EntryError {
    /// The entry has another format.
    #[error("the entry cannot be read: {0}")]
    Malformed(Cow<'static, str>),
    /// The entry has too many bytes.
    #[error("the image has more than {limit} bytes; send a smaller one")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The image has no bytes and no URL, or both, or its base64 is damaged.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The id, a source or the metadata is not valid.
    #[error(transparent)]
    Option(#[from] InvalidOption),
}

impl EntryError {
    /// Returns the stable code. The HTTP table has the same.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "invalid_body",
            Self::TooLarge { .. } => "image_too_large",
            Self::Ingest(IngestError::NoSource | IngestError::Empty) => "missing_image",
            Self::Ingest(IngestError::Fetch(FetchError::Refused(_))) => "url_forbidden",
            Self::Ingest(IngestError::Fetch(_)) => "url_failed",
            Self::Ingest(_) | Self::Option(_) => "invalid_option",
        }
    }
}

/// An item, and the bytes of its image with their hash.
pub(super) type CheckedEntry = (NewItem, Option<(ContentHash, Bytes)>);

impl ItemEntry {
    /// Returns the number of bytes of the image.
    pub(super) fn size(&self) -> usize {
        match &self.content {
            Some(Content::Bytes(bytes)) => bytes.len(),
            Some(Content::Url(_)) | None => 0,
        }
    }

    /// Checks every field. Hashing the bytes is CPU work.
    pub(super) fn check(self, intake: &Intake, limit: u64) -> Result<CheckedEntry, EntryError> {
        let id = checked_id(self.id)?;
        let metadata = checked_metadata(self.metadata)?;
        let mut item = NewItem {
            id,
            source: source_text(self.source)?,
            source_url: source_url_text(self.source_url)?,
            metadata,
            ..NewItem::default()
        };
        match self.content {
            None => Err(IngestError::NoSource.into()),
            Some(Content::Url(url)) => {
                intake.check_url(&url).map_err(IngestError::from)?;
                item.url = Some(url);
                Ok((item, None))
            }
            Some(Content::Bytes(bytes)) if bytes.len() as u64 > limit => {
                Err(EntryError::TooLarge { limit })
            }
            Some(Content::Bytes(bytes)) if bytes.is_empty() => Err(IngestError::Empty.into()),
            Some(Content::Bytes(bytes)) => {
                let hash = content_hash(&bytes);
                item.payload = Some(hash);
                Ok((item, Some((hash, bytes))))
            }
        }
    }
}

fn checked_id(id: Option<String>) -> Result<Option<String>, EntryError> {
    match id {
        Some(id) if id.len() > MAX_ID_BYTES || id.contains('\0') => {
            let detail = format!("must have at most {MAX_ID_BYTES} bytes and no NUL character");
            Err(InvalidOption::new("id", detail).into())
        }
        id => Ok(id.filter(|id| !id.is_empty())),
    }
}

fn checked_metadata(metadata: Option<JsonText>) -> Result<Option<JsonText>, EntryError> {
    let Some(metadata) = metadata else {
        return Ok(None);
    };
    match metadata.get() {
        Some("null") => Ok(None),
        // Postgres cannot store a NUL character in JSON.
        Some(_) if !metadata.has_nul() => Ok(Some(metadata)),
        _ => {
            let limit = JsonText::MAX_BYTES;
            let detail = format!("must have at most {limit} bytes as JSON and no NUL character");
            Err(InvalidOption::new("metadata", detail).into())
        }
    }
}
