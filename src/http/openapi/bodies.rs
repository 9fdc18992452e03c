//! The JSON bodies of the routes that take images.
//!
//! A handler names one of them. [`complete`](super::complete()) adds the other forms that carry the same images and options:
//! msgpack, a multipart form, and the bytes of one image.

use serde::Serialize;
use utoipa::ToSchema;

use crate::pipeline::{
    enhance::EnhanceRequest, options::ScanRequest, preprocess::PreprocessRequest,
    process::ProcessRequest,
};

/// Images, and the options of `/detect`, `/embed` and `/quality`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanBody {
    /// The images; `server.max_images_per_request` says how many are accepted.
    #[schema(min_items = 1)]
    images: Vec<ImageSource>,
    /// The options. The settings have the default of each.
    options: Option<ScanRequest>,
}

/// Images, and the options of `/enhance`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnhanceBody {
    /// The images; `server.max_images_per_request` says how many are accepted.
    #[schema(min_items = 1)]
    images: Vec<ImageSource>,
    /// The options. The settings have the default of each.
    options: Option<EnhanceRequest>,
}

/// Images, and the options of `/preprocess`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreprocessBody {
    /// The images; `server.max_images_per_request` says how many are accepted.
    #[schema(min_items = 1)]
    images: Vec<ImageSource>,
    /// The options. The settings have the default of each.
    options: Option<PreprocessRequest>,
}

/// Images, their masks, and the options of `/process`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessBody {
    /// The images; `server.max_images_per_request` says how many are accepted.
    #[schema(min_items = 1)]
    images: Vec<ImageSource>,
    /// The masks of the images.
    #[schema(nullable = false)]
    masks: Option<Vec<ImageSource>>,
    /// The options. `operations` has to stand here or in the query.
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
    /// The caller's id for it.
    id: Option<String>,
    /// The bytes: base64 text, with or without a `data:` prefix, or binary in msgpack.
    #[schema(format = Byte, min_length = 1)]
    data: String,
    /// The caller's name for where it came from, at most 512 bytes.
    source: Option<String>,
    /// The address it was found at, at most 4096 bytes.
    source_url: Option<String>,
}

/// An image that the server fetches, where its settings allow that (`urls.enabled`).
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkedImage {
    /// The caller's id for it.
    id: Option<String>,
    /// The address to fetch it from.
    #[schema(format = "uri")]
    url: String,
    /// The caller's name for where it came from, at most 512 bytes.
    source: Option<String>,
    /// The address it was found at, at most 4096 bytes; `url` if absent.
    source_url: Option<String>,
}
