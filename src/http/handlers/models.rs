//! `GET /models`.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::{AppState, openapi::failures::ServiceFailures};

/// A model of the registry.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelEntry {
    /// The id in the registry.
    id: String,
    /// What the model does.
    #[schema(example = "detector")]
    role: String,
    /// The model family. It decides the layout of the inputs and outputs.
    #[schema(example = "yunet")]
    family: String,
    /// The sha256 of the model file.
    sha256: String,
    /// The license of the weights.
    license: String,
    /// Whether the license allows commercial use.
    commercial_use: bool,
    /// The origin of the weights.
    source: String,
    /// The length of the vectors of an embedder or encoder.
    #[serde(skip_serializing_if = "Option::is_none")]
    dim: Option<usize>,
    /// The vector space of the vectors. Only vectors with the same vector space can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_space: Option<String>,
    /// Whether this server has loaded the model.
    loaded: bool,
}

/// Lists the models of the registry.
#[utoipa::path(
    get, path = "/models", operation_id = "list_models", tag = "service",
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "The registry", body = Vec<ModelEntry>),
        ServiceFailures,
    )
)]
pub async fn list(State(state): State<AppState>) -> Json<Vec<ModelEntry>> {
    let loaded: Vec<_> = state.pipeline.models.specs().map(|spec| &spec.id).collect();
    let entries = state
        .registry
        .iter()
        .map(|spec| ModelEntry {
            id: spec.id.clone(),
            role: spec.role.to_string(),
            family: spec.family.to_string(),
            sha256: spec.sha256.clone(),
            license: spec.license.clone(),
            commercial_use: spec.commercial_use,
            source: spec.source.clone(),
            dim: spec.dim,
            vector_space: spec.dim.map(|_| spec.vector_space()),
            loaded: loaded.contains(&&spec.id),
        })
        .collect();
    Json(entries)
}
