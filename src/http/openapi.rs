//! The OpenAPI document: the parts that the annotations of the routes do not have.

use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::http::problem::Problem;

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
        (name = "recognition", description = "Whether two faces show the same person, and the error rates of the responses"),
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

#[cfg(test)]
mod tests {
    use facescan_config::{DET_SIZE_STEP, MAX_DET_SIZE, MIN_DET_SIZE};
    use facescan_pipeline::core::options::{MAX_SOURCE_BYTES, MAX_SOURCE_URL_BYTES};
    use serde_json::json;

    /// The attributes of the schemas have numbers, and the checks have constants.
    #[test]
    fn the_schemas_have_the_limits_that_are_checked() {
        let document = serde_json::to_value(crate::http::openapi_document()).unwrap();
        let schemas = &document["components"]["schemas"];
        let scan = &schemas["ScanOptions"]["properties"];
        assert_eq!(scan["source"]["maxLength"], json!(MAX_SOURCE_BYTES));
        assert_eq!(scan["source_url"]["maxLength"], json!(MAX_SOURCE_URL_BYTES));
        for options in ["ScanOptions", "EnhanceOptions", "ProcessOptions"] {
            let properties = &schemas[options]["properties"];
            for name in ["det_size", "second_det_size"] {
                let size = &properties[name]["oneOf"][0];
                assert_eq!(size["minimum"], json!(MIN_DET_SIZE), "{options} {name}");
                assert_eq!(size["maximum"], json!(MAX_DET_SIZE), "{options} {name}");
                assert_eq!(size["multipleOf"], json!(DET_SIZE_STEP), "{options} {name}");
            }
        }
    }
}
