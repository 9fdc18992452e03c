//! Errors of loading the bytes of an image.

use base64::DecodeError;
use thiserror::Error;

use super::fetch::FetchError;
use crate::admission::AdmissionError;

/// Why the bytes of an image are not available.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum IngestError {
    #[error("an image has both `data` and `url`; send one")]
    TwoSources,
    #[error("the image has neither `data` nor `url`; send one")]
    NoSource,
    #[error("the image is empty; send the content of its file")]
    Empty,
    #[error("`data` is not base64: {}", not_base64(.0))]
    NotBase64(#[from] DecodeError),
    #[error("`data` is a `data:` url without `;base64,`; send base64")]
    NotBase64Url,
    /// The fetch of the URL failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{0}; try again later")]
    Full(#[from] AdmissionError),
}

/// Says what is wrong with base64, without a character of it.
fn not_base64(error: &DecodeError) -> String {
    match error {
        DecodeError::InvalidByte(at, b'-' | b'_') => format!(
            "the character at {at} is one of the URL-safe alphabet; send standard base64, with + and /"
        ),
        DecodeError::InvalidByte(at, _) => {
            format!("it cannot have the character at {at}; send letters, digits, + and / only")
        }
        DecodeError::InvalidLength(length) => {
            format!("{length} characters are no whole number of bytes; send all of it")
        }
        DecodeError::InvalidLastSymbol { .. } | DecodeError::InvalidPadding => {
            "its end is damaged; send all of it".to_owned()
        }
    }
}
