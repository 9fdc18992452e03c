//! The OpenAPI document: what the routes' own annotations do not say.

use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::http::problem::Problem;

pub mod answers;
pub mod bodies;
mod complete;
pub mod failures;

pub use complete::complete;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "facescan",
        description = "Finds, embeds, grades and enhances faces. Images come in four forms; errors are \
                       `application/problem+json` with a stable `code`. Every route takes the header \
                       `x-request-timeout-ms`, which makes its deadline earlier."
    ),
    components(schemas(Problem)),
    tags(
        (name = "scan", description = "Operations on images"),
        (name = "process", description = "Images for other tools"),
        (name = "store", description = "Stored results"),
        (name = "service", description = "The server itself")
    )
)]
struct Document;

/// The document before the routes are added.
pub fn base() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// The bytes of a file.
#[derive(Serialize, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct Bytes(Vec<u8>);
