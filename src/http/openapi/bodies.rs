//! The JSON bodies of the routes that take images.
//!
//! A handler names one of these types. [`complete`](super::complete()) adds the other forms for the same images and
//! options: msgpack, a multipart form, and the bytes of one image.

use serde::Serialize;
use utoipa::ToSchema;

use crate::http::extract::batch_body::WebhookFields;
use crate::pipeline::{
    enhance::EnhanceRequest, options::ScanRequest, preprocess::PreprocessRequest,
    process::ProcessRequest,
};
use crate::{admission::Priority, batches::operation::BatchOperation};

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

/// The description of a batch, and its items.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequestBody {
    /// The operation.
    operation: BatchOperation,
    /// Its options, as its own route has them. The settings have the defaults.
    #[schema(value_type = Option<Object>, nullable = false)]
    options: Option<serde_json::Value>,
    /// The caller's name for the batch.
    #[schema(nullable = false, pattern = "^[^\\x00]*$")]
    name: Option<String>,
    /// The priority of the images. The default is that of the options, and `bulk` otherwise.
    #[schema(nullable = false)]
    priority: Option<Priority>,
    /// Whether the batch accepts more items later.
    #[schema(nullable = false)]
    open: Option<bool>,
    /// The address that is told when the batch ends.
    #[schema(nullable = false)]
    webhook: Option<WebhookFields>,
    /// The items.
    #[schema(nullable = false)]
    items: Option<Vec<BatchItemSource>>,
}

/// Items to be added to a batch.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemsBody {
    /// The items.
    #[schema(nullable = false)]
    items: Option<Vec<BatchItemSource>>,
}

/// An image of a batch: its bytes or its URL.
#[derive(Serialize, ToSchema)]
pub struct BatchItemSource {
    /// The caller's id. A batch has each id once.
    id: Option<String>,
    /// The bytes: base64 text, or binary in msgpack.
    data: Option<String>,
    /// A URL to fetch the image from, instead of `data`.
    url: Option<String>,
    /// The caller's name for the origin of the image.
    source: Option<String>,
    /// The address where the image was found. The default is `url`.
    source_url: Option<String>,
    /// The caller's own data, at most 16 KiB of JSON. It is returned with the result.
    #[schema(value_type = Option<Object>)]
    metadata: Option<serde_json::Value>,
}
