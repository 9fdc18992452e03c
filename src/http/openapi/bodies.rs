//! The JSON bodies of the routes that take images.
//!
//! A handler names one of these types. [`complete`](super::complete()) adds the other forms for the same images and
//! options: msgpack, a multipart form, and the bytes of one image.

use serde::Serialize;
use utoipa::ToSchema;

use crate::pipeline::{
    enhance::EnhanceRequest, options::ScanRequest, preprocess::PreprocessRequest,
    process::ProcessRequest,
};

/// Images, and the options of a scan.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanBody {
    /// The images. `server.max_images_per_request` limits their number.
    #[schema(min_items = 1)]
    images: Vec<ImageSource>,
    /// The options. The settings have the defaults.
    options: Option<ScanRequest>,
}

/// Images, and the options of `/enhance`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnhanceBody {
    /// The images. `server.max_images_per_request` limits their number.
    #[schema(min_items = 1)]
    images: Vec<ImageSource>,
    /// The options. The settings have the defaults.
    options: Option<EnhanceRequest>,
}

/// Images, and the options of `/preprocess`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreprocessBody {
    /// The images. `server.max_images_per_request` limits their number.
    #[schema(min_items = 1)]
    images: Vec<ImageSource>,
    /// The options. The settings have the defaults.
    options: Option<PreprocessRequest>,
}

/// Images, their masks, and the options of `/process`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessBody {
    /// The images. `server.max_images_per_request` limits their number.
    #[schema(min_items = 1)]
    images: Vec<ImageSource>,
    /// The masks of the images.
    #[schema(nullable = false)]
    masks: Option<Vec<ImageSource>>,
    /// The options. `operations` must be here or in the query.
    options: Option<ProcessRequest>,
}

/// An image in a JSON or msgpack body.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ImageSource {
    /// The bytes.
    Inline(InlineImage),
    /// An address to fetch the bytes from.
    Linked(LinkedImage),
}

/// An image whose bytes are in the body.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineImage {
    /// The caller's id of the image.
    id: Option<String>,
    /// The bytes: base64 text, with or without a `data:` prefix, or binary in msgpack.
    #[schema(format = Byte, min_length = 1)]
    data: String,
    /// The caller's name for the source of the image, at most 512 bytes.
    source: Option<String>,
    /// The address where the image was found, at most 4096 bytes.
    source_url: Option<String>,
}

/// An image that the server fetches, if its settings allow it (`urls.enabled`).
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkedImage {
    /// The caller's id of the image.
    id: Option<String>,
    /// The address to fetch it from.
    #[schema(format = "uri")]
    url: String,
    /// The caller's name for the source of the image, at most 512 bytes.
    source: Option<String>,
    /// The address where the image was found, at most 4096 bytes. The default is `url`.
    source_url: Option<String>,
}
