//! The OpenAPI document: what the routes' own annotations do not say.

use serde::Serialize;
use utoipa::{IntoResponses, OpenApi, ToSchema};

use crate::{http::problem::Problem, ingest::source::ImageEntry};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "facescan",
        description = "Finds, embeds, grades and enhances faces. Pictures come in four forms; errors are \
                       `application/problem+json` with a stable `code`."
    ),
    components(schemas(Problem, ImageEntry)),
    tags(
        (name = "scan", description = "Operations on pictures"),
        (name = "process", description = "Pictures for other tools"),
        (name = "store", description = "Stored results"),
        (name = "service", description = "The server itself")
    )
)]
struct Document;

/// The document before the routes are added.
pub fn base() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// What every operation on pictures answers when it fails.
#[derive(IntoResponses)]
pub enum Failure {
    /// The request or its only picture is at fault
    #[response(status = "4XX", content_type = "application/problem+json")]
    Request(Problem),
    /// The server is at fault, or something it needs is away
    #[response(status = "5XX", content_type = "application/problem+json")]
    Server(Problem),
}

/// An encoded picture, as it is.
#[derive(Serialize, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct RawPicture(Vec<u8>);

/// The JSON and msgpack form of a request.
#[derive(Serialize, ToSchema)]
pub struct ImagesBody<O> {
    /// The pictures.
    #[schema(value_type = Vec<ImageEntry>)]
    images: Vec<()>,
    /// The masks of the pictures, for /process.
    #[schema(value_type = Vec<ImageEntry>)]
    masks: Option<Vec<()>>,
    /// The options; each has its default from the settings.
    options: Option<O>,
}

/// The multipart form of a request: each option of the query may be a part of its own, or all of them one JSON part.
#[derive(Serialize, ToSchema)]
pub struct MultipartBody {
    /// One part for each picture; its filename is the picture's id.
    image: Vec<RawPicture>,
    /// One part for each mask of the pictures, for /process.
    mask: Option<Vec<RawPicture>>,
    /// The options as JSON.
    options: Option<String>,
}
