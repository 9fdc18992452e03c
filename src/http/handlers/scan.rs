//! The scans: find the faces of images, and run operations on each face.

use axum::{extract::State, http::HeaderMap, response::Response};
use facescan_pipeline::{
    context::RequestContext,
    core::scan::Scan,
    operations::scan::{
        kind::{EmbedKind, ScanKind},
        plan::ScanPlan,
        request::ScanRequest,
    },
    plan::Plan as _,
    results::ScanResult,
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::http::{
    AppState,
    error::ApiError,
    extract::ImageRequest,
    openapi::{
        answers::{EmbedAnswer, ScanAnswer},
        bodies::ScanBody,
        failures::ImageFailures,
    },
    respond::Accepted,
};

use super::{
    embed_image::embed_images,
    run::{PlanRun, RequestResults, WriteOn},
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
    let run = ScanRun::new(&state, ScanKind::Detect, &request.context, request.options)?;
    let results = run.results(request.images).await?;
    respond(run, &headers, results).await
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
    let run = ScanRun::new(&state, ScanKind::Embed, &request.context, request.options)?;
    let results = run.results(request.images).await?;
    respond(run, &headers, results).await
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
    let run = ScanRun::new(&state, ScanKind::Quality, &request.context, request.options)?;
    let results = run.results(request.images).await?;
    respond(run, &headers, results).await
}

/// A scan, and the request that it runs for.
type ScanRun<'a> = PlanRun<'a, ScanPlan>;

impl<'a> ScanRun<'a> {
    fn new(
        state: &'a AppState,
        kind: ScanKind,
        context: &'a RequestContext,
        options: ScanRequest,
    ) -> Result<Self, ApiError> {
        let thresholds = &state.pipeline.models.detector.spec.thresholds;
        Ok(Self {
            state,
            context,
            plan: options.resolve(kind, &state.config, thresholds)?,
        })
    }
}

async fn respond(
    run: ScanRun<'_>,
    headers: &HeaderMap,
    results: RequestResults<Scan>,
) -> Result<Response, ApiError> {
    let plan = &run.plan;
    let results = results.map(|scan| ScanResult::new(scan, plan));
    let write_on = if plan.crops {
        WriteOn::OwnThread
    } else {
        let faces = results.succeeded().map(|result| result.faces.len()).sum();
        let dim = run.state.pipeline.models.vector_len(&plan.tasks());
        WriteOn::for_vectors(faces, dim)
    };
    run.respond(Accepted::structured(headers), results, write_on)
        .await
}
