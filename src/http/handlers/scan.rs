//! `POST /detect`, `/embed` and `/quality`.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{AppendHeaders, IntoResponse, Response},
};

use crate::{
    context::RequestContext,
    http::error::ApiError,
    http::{
        AppState,
        extract::ImageRequest,
        openapi::{
            answers::{EmbedAnswer, ScanAnswer},
            bodies::ScanBody,
            failures::ImageFailures,
        },
        respond::{Accepted, respond, respond_small},
    },
    ingest::intake::Loaded,
    pipeline::{
        answer::{ImageResult, Outcome, ScanResult, Timings},
        encode::EmbedKind,
        options::{ScanKind, ScanOptions, ScanRequest},
    },
};

use super::{encode::encode, fan_out};

/// Finds the faces of pictures.
#[utoipa::path(
    post, path = "/detect", operation_id = "detect_faces", tag = "scan", params(ScanRequest),
    request_body = ScanBody,
    responses(
        (status = 200, description = "One result for each picture, in order", content((ScanAnswer = "application/json"), (ScanAnswer = "application/msgpack"))),
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

/// Finds the faces of pictures and turns each into a vector; with `kind=image` turns whole pictures into vectors.
#[utoipa::path(
    post, path = "/embed", operation_id = "embed_faces", tag = "scan", params(ScanRequest),
    request_body = ScanBody,
    responses(
        (status = 200, description = "One result for each picture, in order", content((EmbedAnswer = "application/json"), (EmbedAnswer = "application/msgpack"))),
        ImageFailures,
    )
)]
pub async fn embed(
    State(state): State<AppState>,
    headers: HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Response, ApiError> {
    if request.options.kind == Some(EmbedKind::Image) {
        return encode(&state, &headers, request).await;
    }
    scan(&state, ScanKind::Embed, &headers, request).await
}

/// Measures pictures and their faces.
#[utoipa::path(
    post, path = "/quality", operation_id = "measure_quality", tag = "scan", params(ScanRequest),
    request_body = ScanBody,
    responses(
        (status = 200, description = "One result for each picture, in order", content((ScanAnswer = "application/json"), (ScanAnswer = "application/msgpack"))),
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
        ticket: _ticket,
        ..
    } = request;
    let options = options.resolve(
        kind,
        &state.config,
        &state.pipeline.detector.spec.thresholds,
    )?;
    let operations = options.operations();
    let pipeline = &state.pipeline;
    pipeline.check_strict(options.strict_device, &operations)?;
    let one = |image| one(state, &context, image, &options);
    let answered = fan_out::run(&state.intake, &context, images, one).await?;
    let times = answered.times();
    let answer = answered.into_answer(&context, kind.name(), pipeline, &operations);
    let accepted = Accepted::structured(headers);
    let faces: usize = answer.results.iter().map(faces_of).sum();
    let response = if faces <= FEW_FACES && !options.crops {
        respond_small(accepted, &answer)?
    } else {
        respond(accepted, &pipeline.pool, answer).await?
    };
    Ok((AppendHeaders(times), response).into_response())
}

/// Answers with more faces are written on the CPU pool.
const FEW_FACES: usize = 16;

fn faces_of(result: &ImageResult<ScanResult>) -> usize {
    match &result.outcome {
        Outcome::Ok(result) => result.faces.len(),
        Outcome::Error { .. } => 0,
    }
}

async fn one(
    state: &AppState,
    context: &RequestContext,
    image: Loaded,
    options: &ScanOptions,
) -> Result<(ScanResult, Timings), ApiError> {
    let options = options.for_image(image.source, image.source_url, image.url)?;
    let mut scan = state.scans.scan(context, image.bytes, &options).await?;
    let timings = scan.timings.after_fetch(image.fetch_ms);
    scan.timings = timings;
    Ok((ScanResult::new(scan, &options), timings))
}
