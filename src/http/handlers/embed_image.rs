//! `POST /embed?kind=image`: vectors of whole images.

use axum::{http::HeaderMap, response::Response};

use super::run::{PlanRun, WriteOn};
use crate::{
    http::{AppState, error::ApiError, extract::ImageRequest, respond::Accepted},
    pipeline::{
        embed_image::{ImageEmbeddingPlan, ImageEmbeddingResult},
        options::ScanRequest,
    },
};

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
    let plan = &ImageEmbeddingPlan::resolve(options, &state.config)?;
    let run = PlanRun {
        state,
        context: &context,
        plan,
    };
    let results = run
        .results(images)
        .await?
        .map(|embedded| ImageEmbeddingResult::new(embedded, plan));
    let dim = state.pipeline.models.encoder()?.dim;
    let write_on = WriteOn::for_vectors(results.entries.len(), dim);
    run.respond(Accepted::structured(headers), results, write_on)
        .await
}
