//! The JSON bodies of the routes that take images. The readers in `http::extract` parse bodies field by field, to name every mistake in
//! them, so these types only describe bodies.
//!
//! A handler names one of these types. [`complete`](super::complete()) adds the other forms for the same images and
//! options: msgpack, a multipart form, and the bytes of one image.

use facescan_pipeline::{
    admission::Priority,
    operation::BatchOperation,
    operations::{
        enhance::request::EnhanceRequest, preprocess::PreprocessRequest,
        process::request::ProcessRequest, scan::request::ScanRequest,
    },
};
use facescan_recognition::{
    collections::search::SearchRequest,
    verify::{MAX_DIM, VerifyRequest},
};
use serde::Serialize;
use utoipa::{
    ToSchema,
    openapi::{
        ArrayBuilder, ObjectBuilder, OneOfBuilder,
        schema::{Schema, Type},
    },
};
use uuid::Uuid;

use super::Bytes;
use crate::http::extract::{
    batch_body::WebhookFields,
    enrollment_options::{EnrollRequest, LibraryRequest},
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
#[expect(dead_code, reason = "only describes images")]
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
    #[schema(pattern = "^[^\\x00]*$")]
    id: Option<String>,
    /// The bytes: base64 text, with or without a `data:` prefix, or binary in msgpack.
    #[schema(format = Byte, min_length = 1)]
    data: String,
    /// The caller's name for the source of the image, at most 512 bytes.
    #[schema(max_length = 512, pattern = "^[^\\x00]*$")]
    source: Option<String>,
    /// The address where the image was found, at most 4096 bytes.
    #[schema(max_length = 4096, pattern = "^[^\\x00]*$")]
    source_url: Option<String>,
}

/// An image that the server fetches, if its settings allow it (`urls.enabled`).
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkedImage {
    /// The caller's id of the image.
    #[schema(pattern = "^[^\\x00]*$")]
    id: Option<String>,
    /// The address to fetch it from.
    #[schema(format = "uri")]
    url: String,
    /// The caller's name for the source of the image, at most 512 bytes.
    #[schema(max_length = 512, pattern = "^[^\\x00]*$")]
    source: Option<String>,
    /// The address where the image was found, at most 4096 bytes. The default is `url`.
    #[schema(max_length = 4096, pattern = "^[^\\x00]*$")]
    source_url: Option<String>,
}

/// Two faces, and the options of `/verify`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyBody {
    /// The first face.
    a: FaceSource,
    /// The second face.
    b: FaceSource,
    /// The options. The settings have the defaults.
    options: Option<VerifyRequest>,
}

/// The parts of a form with two faces. An option can also be a separate part with the name that it has in the query.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyForm {
    /// The image with the first face. Otherwise, `a_face_id` must be set.
    #[schema(nullable = false)]
    a: Option<Bytes>,
    /// The image with the second face. Otherwise, `b_face_id` must be set.
    #[schema(nullable = false)]
    b: Option<Bytes>,
    /// The id of the first face, if it is stored.
    #[schema(nullable = false)]
    a_face_id: Option<Uuid>,
    /// The id of the second face, if it is stored.
    #[schema(nullable = false)]
    b_face_id: Option<Uuid>,
}

/// Faces of a subject, and the options of an enrollment.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrollBody {
    /// The faces. `server.max_images_per_request` limits their number.
    #[schema(min_items = 1)]
    faces: Vec<FaceSource>,
    /// The options.
    options: Option<EnrollRequest>,
}

/// Images, stored faces or vectors, and the options of an enrollment in a library.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LibraryBody {
    /// The images, stored faces and vectors. `server.max_images_per_request` limits their number.
    #[schema(min_items = 1)]
    faces: Vec<FaceSource>,
    /// The options.
    options: Option<LibraryRequest>,
}

/// A face, and the options of a search.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchBody {
    /// The face.
    #[schema(min_items = 1, max_items = 1)]
    faces: Vec<FaceSource>,
    /// The options. `purpose` is required, here or in the query.
    options: Option<SearchRequest>,
}

/// Faces, and the options of their searches.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchesBody {
    /// The faces. `server.max_images_per_request` limits their number.
    #[schema(min_items = 1)]
    faces: Vec<FaceSource>,
    /// The options. `purpose` is required, here or in the query.
    options: Option<SearchRequest>,
}

/// The parts of a form with faces. An option can also be a separate part with the name that it has in the query.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FacesForm {
    /// An image with a face. The part can occur several times.
    #[schema(nullable = false)]
    image: Option<Bytes>,
    /// The id of a stored face. The part can occur several times.
    #[schema(nullable = false)]
    face_id: Option<Uuid>,
}

/// A face: in an image, stored, or as a vector.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes faces")]
pub enum FaceSource {
    /// The bytes of an image.
    Inline(InlineFace),
    /// An address to fetch the image from.
    Linked(LinkedFace),
    /// A stored face.
    Stored(StoredFaceId),
    /// A vector.
    Vector(CallerVector),
}

/// A face in an image whose bytes are in the body.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineFace {
    /// The bytes: base64 text, with or without a `data:` prefix, or binary in msgpack.
    #[schema(format = Byte, min_length = 1)]
    data: String,
}

/// A face in an image that the server fetches, if its settings allow it (`urls.enabled`).
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkedFace {
    /// The address to fetch it from.
    #[schema(format = "uri")]
    url: String,
}

/// A face that is in the database.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoredFaceId {
    /// The id of the face. It must have a vector.
    face_id: Uuid,
}

/// A vector of the caller.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallerVector {
    /// The values, or little-endian 32-bit floats in base64. They need not have length 1, but they are not all 0.
    #[schema(schema_with = vector)]
    embedding: (),
    /// The vector space of the vector, as responses of `/embed` have it.
    #[schema(min_length = 1, max_length = 64, pattern = "^[^\\x00]*$")]
    vector_space: String,
}

/// Returns the schema of a vector of a caller.
fn vector() -> Schema {
    let value = ObjectBuilder::new()
        .schema_type(Type::Number)
        .minimum(Some(f64::from(f32::MIN)))
        .maximum(Some(f64::from(f32::MAX)));
    let values = ArrayBuilder::new()
        .items(value)
        .min_items(Some(1))
        .max_items(Some(MAX_DIM));
    // The lengths of the base64 of a multiple of four bytes.
    let base64 = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(8))
        .pattern(Some(
            "^([A-Za-z0-9+/]{16})*([A-Za-z0-9+/]{5}[AQgw]==|[A-Za-z0-9+/]{10}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/]{16})$",
        ));
    Schema::OneOf(OneOfBuilder::new().item(values).item(base64).build())
}

/// The description of a batch, and its items.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequestBody {
    /// The operation.
    operation: BatchOperation,
    /// Its options, as its own route has them. A search also has `collection`, the id of its collection. The settings have the
    /// defaults.
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
    #[schema(max_length = 4096, pattern = "^[^\\x00]*$")]
    source_url: Option<String>,
    /// The caller's own data, at most 16 KiB of JSON. It is returned with the result.
    #[schema(value_type = Option<Object>)]
    metadata: Option<serde_json::Value>,
}
