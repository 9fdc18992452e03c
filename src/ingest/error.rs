//! Why the bytes of an image cannot be had.

use thiserror::Error;

use super::fetch::FetchError;
use crate::admission::Full;

/// Why the bytes of an image cannot be had.
#[derive(Debug, Error)]
pub enum IngestError {
    /// An entry of the body has both bytes and a URL.
    #[error("an image has both `data` and `url`; send one")]
    TwoSources,
    /// An entry of the body has neither bytes nor a URL.
    #[error("an entry of `images` has neither `data` nor `url`")]
    NoSource,
    /// The text of `data` is not base64.
    #[error("`data` is not base64: {0}")]
    NotBase64(#[from] base64::DecodeError),
    /// The text of `data` begins as a `data:` URL does and is not base64.
    #[error("a `data:` text without `;base64,`")]
    NotBase64Url,
    /// The URL gave no image.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The server fetches as many images as it may.
    #[error("{0}; try again later")]
    Full(#[from] Full),
}
