//! The OpenAPI document: what the routes' own annotations do not say.

use utoipa::OpenApi;

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
        (name = "store", description = "Stored results"),
        (name = "service", description = "The server itself")
    )
)]
struct Document;

/// The document before the routes are added.
pub fn base() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
