//! The formats of processed images.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The format of a processed image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcessedFormat {
    /// JPEG, with the quality `jpeg_quality`.
    Jpeg,
    /// PNG, lossless.
    Png,
    /// WebP, lossless.
    Webp,
    /// AVIF, lossy.
    Avif,
    /// NumPy: bytes `[height, width, 3]`, or the floats of `normalize`.
    Npy,
}

impl ProcessedFormat {
    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
            Self::Avif => "image/avif",
            Self::Npy => "application/x-npy",
        }
    }

    /// Returns the extension of file names.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Png => "png",
            Self::Webp => "webp",
            Self::Avif => "avif",
            Self::Npy => "npy",
        }
    }
}
