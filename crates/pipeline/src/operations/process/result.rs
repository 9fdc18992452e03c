//! The result of `/process`, and the formats of its images.

use bytes::Bytes;
use facescan_config::EnhancedFormat;
use facescan_imaging::{crop::Unmet, preprocess::Profile};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::{base64_text, image_file::ImageInfo};

/// The result of `/process` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProcessResult {
    /// The properties of the image that was sent.
    pub image: ImageInfo,
    /// The processed images: one, or one for each face that was cut out.
    pub processed: Vec<ProcessedFile>,
    /// A report of each operation, in order.
    pub steps: Vec<StepReport>,
}

/// A processed image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProcessedFile {
    /// The format of `data`.
    pub format: ProcessedFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// The region that the last cut took from the image before it: x1, y1, x2, y2. Absent if nothing was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<[u32; 4]>,
    /// The encoded image, in base64.
    #[serde(serialize_with = "base64_text::serialize")]
    #[schema(value_type = String)]
    pub data: Bytes,
}

/// The report of one operation.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StepReport {
    /// The name of the operation.
    pub op: &'static str,
    /// The profile of the resize. Absent if `antialias` was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The constraints that the crop does not meet. Present with `mask_crop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet: Option<Vec<Unmet>>,
    /// Whether the padding was clipped at the edge of the image. Present with `mask_crop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding_clipped: Option<bool>,
    /// Whether the masks covered nothing, so that nothing was cut. Present with `mask_crop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<bool>,
    /// The number of faces that the operation found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faces: Option<usize>,
    /// The number of searches for faces. The last one found none. Present with `anonymize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searches: Option<u32>,
}

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
