//! The options that several operations share: as sent, and with the defaults filled in.

use facescan_config::Store;
use facescan_fields::groups::Options;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    admission::Priority,
    core::{error::InvalidOption, run::RunOptions},
    ingest::intake::LoadedImage,
};

pub mod schema;

pub(crate) use facescan_config::{DetectOptions, InputSize};

/// The maximum length of `source`, in bytes. The schemas have the same number.
pub const MAX_SOURCE_BYTES: usize = 512;

/// The maximum length of `source_url`, in bytes. The schemas have the same number.
pub const MAX_SOURCE_URL_BYTES: usize = 4096;

/// The options of a request that decide how it is admitted.
pub trait RequestOptions: Options {
    /// Whether a request can have masks for its images.
    const TAKES_MASKS: bool = false;

    /// Returns the named priority.
    fn priority(&self) -> Option<Priority>;
}

/// The options of a request that decide how its images are run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunRequest {
    /// The queue of the images. By default, bulk for many images and interactive otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Whether to fail if an operation would not run on the device that the settings name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_device: Option<bool>,
    /// Whether results have `timings_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<bool>,
}

impl RunRequest {
    /// Returns the options of each run. They are off by default, whatever the settings are.
    pub fn resolve(&self) -> RunOptions {
        RunOptions {
            strict_device: self.strict_device.unwrap_or(false),
            timings: self.timings.unwrap_or(false),
        }
    }
}

/// The options of a request that decide how its results are stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StorageRequest {
    /// Whether results are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<bool>,
    /// Whether a stored result of the same bytes, models and options may be returned. Needs `store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<bool>,
    /// The caller's name for the source of the images, at most 512 bytes. Stored with the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512, pattern = "^[^\\x00]*$")]
    pub source: Option<String>,
    /// The address where the image was found, at most 4096 bytes. Stored with the result and never fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096, pattern = "^[^\\x00]*$")]
    pub source_url: Option<String>,
}

impl StorageRequest {
    /// Returns the options of a request that only says whether results are stored.
    pub fn new(store: bool) -> Self {
        Self {
            store: Some(store),
            ..Self::default()
        }
    }

    /// Fills in the defaults.
    ///
    /// # Errors
    /// [`InvalidOption`] if a source is too long.
    pub fn resolve(&mut self, settings: &Store) -> Result<StorageOptions, InvalidOption> {
        let store = *self.store.get_or_insert(settings.enabled);
        Ok(StorageOptions {
            store,
            cache: *self.cache.get_or_insert(settings.cache) && store,
            source: source_text(self.source.clone())?,
            source_url: source_url_text(self.source_url.clone())?,
        })
    }
}

/// The option `store` of a request whose results are never stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
pub struct UnstoredRequest {
    /// Only `false` is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    #[param(ignore)]
    pub store: Option<bool>,
}

impl UnstoredRequest {
    /// Checks that the request does not ask to store its results, which are called `results`.
    ///
    /// # Errors
    /// [`InvalidOption`] if it does.
    pub fn check(&self, results: &str) -> Result<(), InvalidOption> {
        if self.store == Some(true) {
            let detail = format!("{results} are never stored; leave it out or send false");
            return Err(InvalidOption::new("store", detail));
        }
        Ok(())
    }
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
    /// [`InvalidOption`] if a source is too long.
    pub(crate) fn for_image(&self, image: &LoadedImage) -> Result<Self, InvalidOption> {
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
/// [`InvalidOption`] if it is longer than [`MAX_SOURCE_BYTES`] or has a NUL character.
pub fn source_text(text: Option<String>) -> Result<Option<String>, InvalidOption> {
    stored_text("source", text, MAX_SOURCE_BYTES)
}

/// Checks the address of an image. Returns `None` if it is empty.
///
/// # Errors
/// [`InvalidOption`] if it is longer than [`MAX_SOURCE_URL_BYTES`] or has a NUL character.
pub fn source_url_text(text: Option<String>) -> Result<Option<String>, InvalidOption> {
    stored_text("source_url", text, MAX_SOURCE_URL_BYTES)
}

/// Checks a text that will be stored. Postgres cannot store a NUL character.
fn stored_text(
    option: &str,
    text: Option<String>,
    limit: usize,
) -> Result<Option<String>, InvalidOption> {
    match text {
        Some(text) if text.len() > limit => {
            let detail = format!("is longer than {limit} bytes");
            Err(InvalidOption::new(option, detail))
        }
        Some(text) if text.contains('\0') => Err(InvalidOption::new(option, "has a NUL character")),
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
