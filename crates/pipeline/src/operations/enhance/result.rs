//! The result of `/enhance`.

use bytes::Bytes;
use facescan_config::EnhancedFormat;
use facescan_imaging::enhance::Step;
use serde::Serialize;
use utoipa::ToSchema;

use crate::core::{base64_text, image_file::ImageInfo};

/// The result of `/enhance` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EnhanceResult {
    /// The properties of the image that was sent.
    pub image: ImageInfo,
    /// The enhanced image.
    pub enhanced: EnhancedFile,
    /// The comparison of the best face before and after. Present with `identity=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// An enhanced image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EnhancedFile {
    /// The format of `data`.
    pub format: EnhancedFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// The scale of the enhanced image. Divide coordinates in it by this number to get coordinates in the original
    /// image.
    pub scale: f32,
    /// The applied steps, in order.
    pub steps: Vec<Step>,
    /// The encoded image, in base64.
    #[serde(serialize_with = "base64_text::serialize")]
    #[schema(value_type = String)]
    pub data: Bytes,
}

/// The comparison of the best face before and after.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Identity {
    /// The cosine of the two vectors. Absent if one of the images has no such face.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cosine: Option<f32>,
    /// The result is flagged if the cosine is below this threshold.
    pub threshold: f32,
    /// Whether the face may no longer be the same person.
    pub identity_drift: bool,
}
