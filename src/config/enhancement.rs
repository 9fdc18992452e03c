//! Defaults of the enhancement options.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rule::{Kind, Rule};

/// Section `enhancement`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enhancement {
    /// Format of the enhanced picture.
    pub format: EnhancedFormat,
    /// JPEG quality, 1–100.
    pub jpeg_quality: u8,
    /// Cosine between the embeddings before and after, under which a face is flagged `identity_drift`.
    pub identity_threshold: f32,
}

/// Format of an enhanced picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnhancedFormat {
    /// JPEG, at `enhancement.jpeg_quality`.
    Jpeg,
    /// PNG, lossless.
    Png,
    /// WebP, lossless.
    Webp,
    /// AVIF, lossy.
    Avif,
}

impl EnhancedFormat {
    /// The media type of a picture encoded so.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
            Self::Avif => "image/avif",
        }
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule::typed(
        "enhancement.format",
        Kind::Choice,
        "jpeg, png, webp or avif",
    ),
    Rule::checked(
        "enhancement.jpeg_quality",
        Kind::Yaml,
        "a whole number from 1 to 100",
        |c| (1..=100).contains(&c.enhancement.jpeg_quality),
    ),
    Rule::checked(
        "enhancement.identity_threshold",
        Kind::Yaml,
        "a number from -1 to 1",
        |c| (-1.0..=1.0).contains(&c.enhancement.identity_threshold),
    ),
];
