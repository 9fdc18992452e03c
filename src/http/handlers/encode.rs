//! `POST /embed?kind=image`: vectors of whole images.

use axum::{http::HeaderMap, response::Response};

use super::run::{Responder, run_images};
use crate::{
    http::{AppState, error::ApiError, extract::ImageRequest, respond::Accepted},
    pipeline::{
        encode::{EncodePlan, EncodeResult},
        fan_out::ImageOperation,
        options::ScanRequest,
    },
};

/// The CPU pool serialises answers with more vectors than this.
const FEW_VECTORS: usize = 8;

/// Embeds every image of a request as a whole.
pub(super) async fn encode(
    state: &AppState,
    headers: &HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Response, ApiError> {
    let ImageRequest {
        context,
        images,
        options,
        // Holds the reservations until the answer is written.
        permits: _permits,
        ..
    } = request;
    let plan = EncodePlan::resolve(options, &state.config)?;
    let results = run_images(state, &context, images, &plan)
        .await?
        .map(|encoded| EncodeResult::new(encoded, &plan));
    let is_small = results.entries.len() <= FEW_VECTORS;
    let responder = Responder {
        state,
        context: &context,
        accepted: Accepted::structured(headers),
        operation: "embed",
        operations: plan.operations(),
    };
    responder.respond(results, is_small).await
}
