//! Errors of loading the bytes of an image.

use thiserror::Error;

use super::fetch::FetchError;
use crate::admission::AdmissionError;

/// Why the bytes of an image are not available.
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
    /// The text of `data` begins like a `data:` URL and is not base64.
    #[error("`data` is a `data:` url without `;base64,`; send base64")]
    NotBase64Url,
    /// The fetch of the URL failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The byte budget of fetched images is used up.
    #[error("{0}; try again later")]
    Full(#[from] AdmissionError),
}
