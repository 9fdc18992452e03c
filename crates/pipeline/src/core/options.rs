//! The options that several operations share: as sent, and with the defaults filled in.

use facescan_fields::{self as fields, FieldErrors};
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::{admission::Priority, core::error::PipelineError, ingest::intake::LoadedImage};

mod detect;
pub mod schema;

pub(crate) use detect::DetectRequest;
pub use detect::{DetectOptions, InputSize};

/// The maximum length of `source`, in bytes. The schemas have the same number.
pub const MAX_SOURCE_BYTES: usize = 512;

/// The maximum length of `source_url`, in bytes. The schemas have the same number.
pub const MAX_SOURCE_URL_BYTES: usize = 4096;

/// Reads the options of a request.
///
/// # Errors
/// [`FieldErrors`] with every option that is unknown, malformed or out of range.
pub fn from_tree<O>(tree: &serde_json::Value) -> Result<O, FieldErrors>
where
    O: DeserializeOwned + ToSchema + 'static,
{
    fields::read(tree, "option")
}

/// The options of a request that decide how it is admitted.
pub trait RequestOptions: DeserializeOwned + ToSchema + 'static {
    /// Whether a request can have masks for its images.
    const TAKES_MASKS: bool = false;

    /// Returns the named priority.
    fn priority(&self) -> Option<Priority>;
}

/// How the results of a request are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorageOptions {
    /// Whether results are stored.
    pub store: bool,
    /// Whether stored results may be returned.
    pub cache: bool,
    /// The caller's name for the source of the images.
    pub source: Option<String>,
    /// The address where the image was found.
    pub source_url: Option<String>,
}

impl StorageOptions {
    /// Returns the options of one image, which can have its own source. If the request has no `source_url`, this is the
    /// URL that the image was fetched from.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if a source is too long.
    pub(crate) fn for_image(&self, image: &LoadedImage) -> Result<Self, PipelineError> {
        let mut options = self.clone();
        if image.source.is_some() {
            options.source = source_text(image.source.clone())?;
        }
        if image.source_url.is_some() {
            options.source_url = source_url_text(image.source_url.clone())?;
        }
        options.source_url = options.source_url.or_else(|| image.url.clone());
        Ok(options)
    }
}

/// Checks the caller's name for a source. Returns `None` if it is empty.
///
/// # Errors
/// [`PipelineError::InvalidOption`] if it is longer than [`MAX_SOURCE_BYTES`] or has a NUL character.
pub fn source_text(text: Option<String>) -> Result<Option<String>, PipelineError> {
    stored_text("source", text, MAX_SOURCE_BYTES)
}

/// Checks the address of an image. Returns `None` if it is empty.
///
/// # Errors
/// [`PipelineError::InvalidOption`] if it is longer than [`MAX_SOURCE_URL_BYTES`] or has a NUL character.
pub fn source_url_text(text: Option<String>) -> Result<Option<String>, PipelineError> {
    stored_text("source_url", text, MAX_SOURCE_URL_BYTES)
}

/// Checks a text that will be stored. Postgres cannot store a NUL character.
fn stored_text(
    option: &str,
    text: Option<String>,
    limit: usize,
) -> Result<Option<String>, PipelineError> {
    match text {
        Some(text) if text.len() > limit => Err(PipelineError::invalid_option(
            option,
            format!("is longer than {limit} bytes"),
        )),
        Some(text) if text.contains('\0') => {
            Err(PipelineError::invalid_option(option, "has a NUL character"))
        }
        text => Ok(text.filter(|text| !text.is_empty())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_source_is_accepted() {
        let text = |length| Some("x".repeat(length));
        assert!(source_text(text(MAX_SOURCE_BYTES)).is_ok());
        assert!(source_text(text(MAX_SOURCE_BYTES + 1)).is_err());
        assert!(source_url_text(text(MAX_SOURCE_URL_BYTES)).is_ok());
        assert!(source_url_text(text(MAX_SOURCE_URL_BYTES + 1)).is_err());
        assert!(source_text(Some("a\0b".to_owned())).is_err());
    }
}
