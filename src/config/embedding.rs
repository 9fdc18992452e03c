//! Defaults of the embedding options.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rule::{Kind, Rule};

/// Section `embedding`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Embedding {
    /// Default of the request option `embedding_format`.
    pub format: EmbeddingFormat,
}

/// Form of an embedding in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum EmbeddingFormat {
    /// A list of numbers.
    #[serde(rename = "float")]
    Float,
    /// Base64 of little-endian 32-bit floats.
    #[serde(rename = "base64-f32")]
    Base64F32,
    /// Base64 of little-endian 16-bit floats.
    #[serde(rename = "base64-f16")]
    Base64F16,
}

pub(super) const RULES: &[Rule] = &[Rule::typed(
    "embedding.format",
    Kind::Choice,
    "float, base64-f32 or base64-f16",
)];
