//! `POST /embed?kind=image`: vectors of whole images.

use axum::{http::HeaderMap, response::Response};
use facescan_pipeline::{
    operations::{embed_image::ImageEmbeddingPlan, scan::request::ScanRequest},
    plan::Plan as _,
    results::embed_image::ImageEmbeddingResult,
};

use super::run::{PlanRun, WriteOn};
use crate::http::{AppState, error::ApiError, extract::ImageRequest, respond::Accepted};

/// Embeds every image of a request as a whole.
pub(super) async fn embed_images(
    state: &AppState,
    headers: &HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Response, ApiError> {
    let ImageRequest {
        context,
        images,
        options,
        // Holds the reservations until the answer is written.
        reservations: _reservations,
        ..
    } = request;
    let run = PlanRun {
        state,
        context: &context,
        plan: ImageEmbeddingPlan::resolve(options, &state.config)?,
    };
    let results = run
        .results(images)
        .await?
        .map(|embedded| ImageEmbeddingResult::new(embedded, &run.plan));
    let dim = state.pipeline.models.vector_len(&run.plan.tasks());
    let write_on = WriteOn::for_vectors(results.entries.len(), dim);
    run.respond(Accepted::structured(headers), results, write_on)
        .await
}
