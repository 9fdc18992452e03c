//! Serves `/openapi.json` and its user interface from the binary.

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::SwaggerUi;

use crate::http::AppState;

/// Returns the routes of the document and its user interface.
pub fn routes(document: OpenApi) -> Router<AppState> {
    SwaggerUi::new("/docs")
        .url("/openapi.json", document)
        .into()
}
