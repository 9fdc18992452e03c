//! The errors of the pipeline.

use std::fmt::Display;

use facescan_fields::{FieldErrors, wording};
use facescan_imaging::{decode::DecodeError, encode::EncodeError};
use facescan_inference::{engine::EngineError, heads::HeadError, pool::PoolError, registry::Role};
use facescan_store::StoreError;
use thiserror::Error;

use crate::{admission::AdmissionError, ingest::error::IngestError};

/// An option is unknown, malformed or out of range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("option `{option}`: {detail}")]
pub struct InvalidOption {
    /// The option's name.
    pub option: String,
    /// The allowed values.
    pub detail: String,
}

/// An error that leaves an image without a result.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum PipelineError {
    /// An option does not fit the image, the models or the settings.
    #[error(transparent)]
    InvalidOption(#[from] InvalidOption),
    /// Options cannot be read.
    #[error(transparent)]
    Fields(#[from] FieldErrors),
    /// The bytes cannot be loaded.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The bytes are not an image that can be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The result cannot be encoded.
    #[error(transparent)]
    Encode(EncodeError),
    #[error(
        "the operations make images of more than {limit} pixels in all; make them smaller or fewer"
    )]
    TooManyPixels { limit: u64 },
    #[error(
        "the work on the image takes {needed} megapixel passes, and {limit} are allowed; send a smaller image, fewer \
         operations, or blurs with smaller kernels"
    )]
    TooMuchWork { needed: u64, limit: u64 },
    #[error(
        "the response would take more than {limit} bytes; ask for smaller images, or send fewer"
    )]
    ResponseTooLarge { limit: usize },
    /// The memory for responses is used up.
    #[error(transparent)]
    Overloaded(#[from] AdmissionError),
    /// The request has `strict_device`, and the operation would run elsewhere.
    #[error("{operation} cannot run on {requested}: {reason}")]
    DeviceUnavailable {
        operation: &'static str,
        requested: String,
        reason: String,
    },
    #[error(
        "faces are still found after {searches} searches; send a higher min_score, or method fill with a larger margin"
    )]
    AnonymizationFailed { searches: u32 },
    #[error("this operation needs a model; set models.{0} to an id of the registry")]
    NoModel(Role),
    /// A model could not be run.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The output of a detector cannot be read.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A job of the CPU pool gave no result.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a result cannot be written as json")]
    Serialize(#[from] serde_json::Error),
    /// The output of a model or a graph does not match its registry entry.
    #[error("{0}")]
    UnexpectedOutput(String),
    /// A sha256 of the registry is not 64 hexadecimal digits.
    #[error("{0} is not a sha256")]
    NotASha256(String),
}

impl PipelineError {
    /// Creates an error for an option that is out of range or malformed.
    pub fn invalid_option(option: impl Into<String>, detail: impl Into<String>) -> Self {
        InvalidOption::new(option, detail).into()
    }
}

impl From<EncodeError> for PipelineError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Size { .. } | EncodeError::Pixels { .. } => {
                Self::invalid_option("format", error.to_string())
            }
            EncodeError::Encoder { .. } => Self::Encode(error),
        }
    }
}

impl InvalidOption {
    /// Creates an error with the name of the option and the allowed values.
    pub fn new(option: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            option: shorten(option.into()),
            detail: shorten(detail.into()),
        }
    }
}

/// The longest text that quotes a caller, in bytes.
const MAX_BYTES: usize = 500;

/// Shortens a text that quotes the caller, and its memory.
pub fn shorten(text: String) -> String {
    match text.len() > MAX_BYTES {
        true => excerpt(&text),
        false => text,
    }
}

/// Writes the beginning of an error that quotes the caller. What is beyond it is never written.
pub(crate) fn excerpt(error: &impl Display) -> String {
    wording::beginning(error, MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[test]
    fn text_of_a_caller_is_bounded() {
        let text = InvalidOption::new("preset", "é".repeat(1_000_000)).to_string();
        assert!(
            text.len() < 600 && text.ends_with('…'),
            "{} bytes",
            text.len()
        );
        let text = shorten("é".repeat(1_000_000));
        assert!(text.capacity() < 2000, "{} bytes", text.capacity());
    }

    #[test]
    fn an_error_is_not_written_beyond_its_beginning() {
        struct Endless;
        impl Display for Endless {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    formatter.write_str("€ ")?;
                }
            }
        }
        let text = excerpt(&Endless);
        assert!(text.len() < 510 && text.ends_with('…'), "{text}");
        assert_eq!(excerpt(&"short"), "short");
        assert_eq!(excerpt(&"x".repeat(MAX_BYTES)).len(), MAX_BYTES);
    }
}
