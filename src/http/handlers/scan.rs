//! The scans: find the faces of images, and run operations on each face.

use axum::{extract::State, http::HeaderMap, response::Response};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    http::error::ApiError,
    http::{
        AppState,
        extract::ImageRequest,
        openapi::{
            answers::{EmbedAnswer, ScanAnswer},
            bodies::ScanBody,
            failures::ImageFailures,
        },
        respond::Accepted,
    },
    pipeline::{
        answer::ScanResult,
        embed_image::EmbedKind,
        options::{ScanKind, ScanRequest},
    },
};

use super::{
    embed_image::embed_images,
    run::{PlanRun, WriteOn},
};

/// Returns the routes of this module.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(detect))
        .routes(routes!(embed))
        .routes(routes!(quality))
}

/// Finds the faces of images.
#[utoipa::path(
    post, path = "/detect", operation_id = "detect_faces", tag = "scan", params(ScanRequest),
    security(("key" = ["infer"])),
    request_body = ScanBody,
    responses(
        (status = 200, description = "One result for each image, in order", content(
            (ScanAnswer = "application/json"), (ScanAnswer = "application/msgpack")
        )),
        ImageFailures,
    )
)]
pub async fn detect(
    State(state): State<AppState>,
    headers: HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Response, ApiError> {
    scan(&state, ScanKind::Detect, &headers, request).await
}

/// Finds the faces of images and computes the vector of each.
///
/// With `kind=image` it computes the vectors of whole images instead.
#[utoipa::path(
    post, path = "/embed", operation_id = "embed_faces", tag = "scan", params(ScanRequest),
    security(("key" = ["infer"])),
    request_body = ScanBody,
    responses(
        (status = 200, description = "One result for each image, in order", content(
            (EmbedAnswer = "application/json"), (EmbedAnswer = "application/msgpack")
        )),
        ImageFailures,
    )
)]
pub async fn embed(
    State(state): State<AppState>,
    headers: HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Response, ApiError> {
    if request.options.kind == Some(EmbedKind::Image) {
        return embed_images(&state, &headers, request).await;
    }
    scan(&state, ScanKind::Embed, &headers, request).await
}

/// Measures the quality of images and their faces.
#[utoipa::path(
    post, path = "/quality", operation_id = "measure_quality", tag = "scan", params(ScanRequest),
    security(("key" = ["infer"])),
    request_body = ScanBody,
    responses(
        (status = 200, description = "One result for each image, in order", content(
            (ScanAnswer = "application/json"), (ScanAnswer = "application/msgpack")
        )),
        ImageFailures,
    )
)]
pub async fn quality(
    State(state): State<AppState>,
    headers: HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Response, ApiError> {
    scan(&state, ScanKind::Quality, &headers, request).await
}

async fn scan(
    state: &AppState,
    kind: ScanKind,
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
    let thresholds = &state.pipeline.models.detector.spec.thresholds;
    let plan = &options.resolve(kind, &state.config, thresholds)?;
    let run = PlanRun {
        state,
        context: &context,
        plan,
    };
    let results = run
        .results(images)
        .await?
        .map(|scan| ScanResult::new(scan, plan));
    let write_on = if plan.crops {
        WriteOn::OwnThread
    } else {
        let faces = results.succeeded().map(|result| result.faces.len()).sum();
        let dim = match kind {
            ScanKind::Embed => state.pipeline.models.embedder.dim,
            ScanKind::Detect | ScanKind::Quality => 0,
        };
        WriteOn::for_vectors(faces, dim)
    };
    run.respond(Accepted::structured(headers), results, write_on)
        .await
}
