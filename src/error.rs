//! Errors at the edge: one enum, and one table from a variant to its status, code and title.

use thiserror::Error;

use crate::{admission::Full, pipeline::heads::HeadError};
use facescan_imaging::{decode::DecodeError, encode::EncodeError};
use facescan_inference::engine::EngineError;
use facescan_inference::pool::PoolError;
use facescan_store::StoreError;

/// Why a request, or one image of it, got no result.
#[derive(Debug, Error)]
pub enum Error {
    /// An option is unknown, malformed or out of range.
    #[error("option `{option}`: {detail}")]
    InvalidOption {
        /// The option's name.
        option: String,
        /// What is allowed.
        detail: String,
    },
    /// The body is not what its content type says.
    #[error("the body could not be read: {0}")]
    InvalidBody(String),
    /// The request holds no image.
    #[error("the request holds no image: {0}")]
    MissingImage(&'static str),
    /// The request or the image is of a type that is not accepted.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// An image of an accepted format uses a variant that is not supported.
    #[error("{0}")]
    ImageUnsupported(String),
    /// An image that cannot be decoded.
    #[error("{0}")]
    ImageCorrupt(String),
    /// An image that ends early.
    #[error("{0}")]
    ImageTruncated(String),
    /// An image over one of the limits.
    #[error("{0}")]
    ImageTooLarge(String),
    /// The request body is over the limit.
    #[error("the body is larger than {limit} bytes; send fewer or smaller images")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// More images than one request may hold.
    #[error("the request holds more than {limit} images; send them in several requests")]
    TooManyImages {
        /// The limit.
        limit: usize,
    },
    /// The server does not fetch this URL.
    #[error("{0}")]
    UrlForbidden(String),
    /// A URL that gave no picture.
    #[error("{0}")]
    UrlFailed(String),
    /// The address is there, for another method.
    #[error("this address does not take that method; see /docs")]
    MethodNotAllowed,
    /// There is nothing at this address, or it was erased.
    #[error("{0}")]
    NotFound(String),
    /// There is no room for the request now.
    #[error("{0}; try again after the time in retry-after")]
    Overloaded(Full),
    /// The request took longer than it may.
    #[error("the request took longer than {limit_ms} ms")]
    DeadlineExceeded {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// `strict_device` was asked for, and the operation would run elsewhere.
    #[error("{operation} cannot run on {requested}: {reason}")]
    DeviceUnavailable {
        /// The operation's name.
        operation: &'static str,
        /// The device that the settings ask for.
        requested: String,
        /// Why it is not used.
        reason: String,
    },
    /// Faces are still found in a picture that was to have none.
    #[error(
        "faces are still found after {searches} searches; send a higher min_score, or method fill with a larger margin"
    )]
    AnonymizationFailed {
        /// How often faces were looked for.
        searches: u32,
    },
    /// The database cannot be reached.
    #[error("{0}")]
    StoreUnavailable(String),
    /// A fault of ours.
    #[error("{0}")]
    Internal(String),
}

/// What the table says of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorKind {
    /// The HTTP status.
    pub status: u16,
    /// The stable code that clients match on.
    pub code: &'static str,
    /// A short title of the kind.
    pub title: &'static str,
}

const fn kind(status: u16, code: &'static str, title: &'static str) -> ErrorKind {
    ErrorKind {
        status,
        code,
        title,
    }
}

impl Error {
    /// An option that is out of range or malformed.
    pub fn invalid_option(option: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::InvalidOption {
            option: shortened(option.into()),
            detail: shortened(detail.into()),
        }
    }

    /// A body that cannot be read.
    pub fn invalid_body(detail: impl Into<String>) -> Self {
        Self::InvalidBody(shortened(detail.into()))
    }

    /// The one table of statuses, codes and titles. Codes are never renamed.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidOption { .. } => kind(422, "invalid_option", "invalid option"),
            Self::InvalidBody(_) => kind(400, "invalid_body", "unreadable body"),
            Self::MissingImage(_) => kind(400, "missing_image", "no image"),
            Self::UnsupportedMediaType(_) => {
                kind(415, "unsupported_media_type", "unsupported media type")
            }
            Self::ImageUnsupported(_) => kind(415, "image_unsupported", "unsupported image"),
            Self::ImageCorrupt(_) => kind(422, "image_corrupt", "corrupt image"),
            Self::ImageTruncated(_) => kind(422, "image_truncated", "truncated image"),
            Self::ImageTooLarge(_) => kind(413, "image_too_large", "image too large"),
            Self::BodyTooLarge { .. } => kind(413, "body_too_large", "body too large"),
            Self::TooManyImages { .. } => kind(413, "too_many_images", "too many images"),
            Self::UrlForbidden(_) => kind(403, "url_forbidden", "url not allowed"),
            Self::UrlFailed(_) => kind(422, "url_failed", "url not fetched"),
            Self::MethodNotAllowed => kind(405, "method_not_allowed", "method not allowed"),
            Self::NotFound(_) => kind(404, "not_found", "not found"),
            Self::Overloaded(_) => kind(429, "overloaded", "overloaded"),
            Self::DeadlineExceeded { .. } => kind(504, "deadline_exceeded", "deadline exceeded"),
            Self::DeviceUnavailable { .. } => kind(503, "device_unavailable", "device unavailable"),
            Self::AnonymizationFailed { .. } => {
                kind(422, "anonymization_failed", "faces are still found")
            }
            Self::StoreUnavailable(_) => kind(503, "store_unavailable", "database unavailable"),
            Self::Internal(_) => kind(500, "internal", "internal error"),
        }
    }

    /// The text that clients see. What a 5xx says of our insides stays in the log.
    pub fn public_detail(&self) -> String {
        match self {
            Self::Internal(_) => {
                "something failed on the server; its log has the request id".to_owned()
            }
            Self::StoreUnavailable(_) => {
                "the database cannot be used now; try again later, or send store=false".to_owned()
            }
            other => other.to_string(),
        }
    }
}

/// What a caller sent comes back in messages, but not megabytes of it.
fn shortened(mut text: String) -> String {
    const LONGEST: usize = 500;
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        let detail = error.to_string();
        match error {
            DecodeError::UnsupportedMedia { .. } => Self::UnsupportedMediaType(detail),
            DecodeError::Unsupported { .. } => Self::ImageUnsupported(detail),
            DecodeError::Corrupt { .. } => Self::ImageCorrupt(detail),
            DecodeError::Truncated { .. } => Self::ImageTruncated(detail),
            DecodeError::TooLarge { .. } => Self::ImageTooLarge(detail),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        if error.is_unavailable() {
            Self::StoreUnavailable(error.to_string())
        } else {
            Self::Internal(error.to_string())
        }
    }
}

macro_rules! internal {
    ($($source:ty),*) => {
        $(impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::Internal(error.to_string())
            }
        })*
    };
}

impl From<Full> for Error {
    fn from(full: Full) -> Self {
        Self::Overloaded(full)
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Size { .. } | EncodeError::Pixels { .. } => {
                Self::invalid_option("format", error.to_string())
            }
            EncodeError::Encoder { .. } => Self::Internal(error.to_string()),
        }
    }
}

internal!(EngineError, HeadError, PoolError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_sent_does_not_come_back_by_the_megabyte() {
        let text = Error::invalid_option("preset", "é".repeat(1_000_000)).to_string();
        assert!(
            text.len() < 600 && text.ends_with('…'),
            "{} bytes",
            text.len()
        );
    }
}
