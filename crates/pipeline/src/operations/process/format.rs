//! The formats of processed images.

use facescan_config::EnhancedFormat;
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
        let encoded = self.encoded();
        encoded.map_or("application/x-npy", EnhancedFormat::media_type)
    }

    /// Returns the format of the encoder. `None` for NumPy, which has none.
    pub(super) fn encoded(self) -> Option<EnhancedFormat> {
        match self {
            Self::Jpeg => Some(EnhancedFormat::Jpeg),
            Self::Png => Some(EnhancedFormat::Png),
            Self::Webp => Some(EnhancedFormat::Webp),
            Self::Avif => Some(EnhancedFormat::Avif),
            Self::Npy => None,
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
