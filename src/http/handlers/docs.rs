//! Serves `/openapi.json` and its user interface from the binary.

use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use bytes::Bytes;
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::http::AppState;

const DOCUMENT: &str = "/openapi.json";

/// Returns the routes of the document and its user interface.
pub fn routes(document: OpenApi) -> Router<AppState> {
    // Anyone may read the document, and it is large. All responses share its bytes. A document of strings and maps is always
    // valid JSON.
    let json = Bytes::from(serde_json::to_vec(&document).unwrap_or_default());
    let interface: Router<AppState> = SwaggerUi::new("/docs")
        .config(Config::from(DOCUMENT))
        .into();
    interface.route(
        DOCUMENT,
        get(|| async { ([(CONTENT_TYPE, "application/json")], json) }),
    )
}
