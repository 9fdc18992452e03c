//! Why two faces cannot be compared.

use thiserror::Error;
use uuid::Uuid;

use super::verify::Side;
use crate::pipeline::error::{InvalidOption, PipelineError};

/// Two faces cannot be compared.
#[derive(Debug, Error)]
pub enum RecognitionError {
    /// The image has no face with a vector.
    #[error("no face was found in `{0}`; send an image that shows a face, or a lower min_score")]
    NoFace(Side),
    /// There is no such stored face.
    #[error("there is no face {0}, or it was erased")]
    NotFound(Uuid),
    /// The stored face has no vector.
    #[error("the face {0} has no vector; send its image to /embed first")]
    NoVector(Uuid),
    /// The vectors were computed by different models or settings.
    #[error("`a` has the contract {a} and `b` has {b}; compare vectors of one contract only")]
    ContractMismatch {
        /// The contract of the first vector.
        a: String,
        /// The contract of the second vector.
        b: String,
    },
    /// The image of a side has no result.
    #[error("`{side}`: {source}")]
    Image {
        /// The side.
        side: Side,
        /// The reason.
        #[source]
        source: PipelineError,
    },
    /// An option is out of range.
    #[error(transparent)]
    InvalidOption(#[from] InvalidOption),
}
