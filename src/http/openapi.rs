//! The OpenAPI document: the parts that the annotations of the routes do not have.

use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::http::problem::Problem;

pub mod answers;
pub mod bodies;
mod complete;
pub mod documented;
pub mod failures;
pub mod routes;

pub use complete::complete;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "facescan",
        description = "Finds faces, computes their vectors, measures their quality, and enhances images. Images can be \
                       sent in four forms. Errors are `application/problem+json` with a stable `code`. Every route \
                       accepts the header `x-request-timeout-ms`, which sets an earlier deadline."
    ),
    components(schemas(Problem)),
    tags(
        (name = "scan", description = "The faces of images"),
        (name = "recognition", description = "Whether two faces show the same person, and the error rates of the answers"),
        (name = "process", description = "Changed images, and tensors"),
        (name = "store", description = "Stored results"),
        (name = "access", description = "Keys"),
        (name = "service", description = "The server itself")
    )
)]
struct Document;

/// Returns the document before the routes are added.
pub fn base() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// The bytes of a file.
#[derive(Serialize, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct Bytes(Vec<u8>);
