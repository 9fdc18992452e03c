//! The scans: find the faces of images, and run operations on each face.

use axum::{extract::State, http::HeaderMap};
use facescan_pipeline::{
    operation::ScanKind,
    operations::{
        embed_image::ImageEmbeddingPlan,
        scan::request::{EmbedKind, ScanRequest},
    },
    plan::Plan as _,
    results::{
        ScanResult, embed_image::ImageEmbeddingResult, response::Response, schemas::EmbedResult,
    },
};
use serde::Serialize;
use utoipa_axum::router::UtoipaMethodRouter;

use super::run::{PlanRun, WriteOn};
use crate::http::{
    AppState,
    error::ApiError,
    extract::ImageRequest,
    openapi::{
        bodies::ScanBody,
        failures::ImageFailures,
        routes::{Own, Routes},
    },
    respond::{Accepted, negotiated::Negotiated},
};

/// Returns the route of a scan that has only faces.
pub fn face_scan(kind: ScanKind) -> UtoipaMethodRouter<AppState> {
    let handler = move |State(state): State<AppState>,
                        headers: HeaderMap,
                        request: ImageRequest<ScanRequest>| async move {
        scan::<ScanResult>(&state, kind, &headers, request).await
    };
    let own = Own {
        path: format!("/{}", kind.operation().name()),
        client_name: kind.client_name(),
        description: kind.description(),
    };
    Routes::default()
        .with_annotation_of(utoipa_axum::routes!(embed), own, handler)
        .into_method_router()
}

/// Finds the faces of images and computes the vector of each.
///
/// With `kind=image` it computes the vectors of whole images instead.
#[utoipa::path(
    post, path = "/embed", operation_id = ScanKind::Embed.client_name(), tag = "scan", params(ScanRequest),
    security(("key" = ["infer"])),
    request_body = ScanBody,
    responses(ImageFailures)
)]
pub async fn embed(
    State(state): State<AppState>,
    headers: HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Negotiated<Response<EmbedResult>>, ApiError> {
    match request.options.kind.unwrap_or_default() {
        EmbedKind::Face => scan(&state, ScanKind::Embed, &headers, request).await,
        EmbedKind::Image => embed_images(&state, &headers, request).await,
    }
}

/// Scans the images of a request.
async fn scan<T: From<ScanResult> + Serialize + Send + 'static>(
    state: &AppState,
    kind: ScanKind,
    headers: &HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Negotiated<Response<T>>, ApiError> {
    let ImageRequest {
        context,
        images,
        mut options,
        // Holds the reservations until the response is written.
        reservations: _reservations,
        ..
    } = request;
    let thresholds = &state.pipeline.models.detector.spec.thresholds;
    let run = PlanRun {
        state,
        context: &context,
        plan: options.resolve(kind, &state.config, thresholds)?,
    };
    let mut faces = 0;
    let convert = |scan| {
        let result = ScanResult::new(scan, &run.plan);
        faces += result.faces.len();
        T::from(result)
    };
    let response = run.response(images, convert).await?;
    let write_on = if run.plan.crops {
        WriteOn::OwnThread
    } else {
        let dim = state.pipeline.models.vector_len(&run.plan.tasks());
        WriteOn::for_vectors(faces, dim)
    };
    let accepted = Accepted::structured(headers);
    run.write(accepted, response, write_on).await
}

/// Embeds every image of a request as a whole.
async fn embed_images(
    state: &AppState,
    headers: &HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Negotiated<Response<EmbedResult>>, ApiError> {
    let ImageRequest {
        context,
        images,
        mut options,
        // Holds the reservations until the response is written.
        reservations: _reservations,
        ..
    } = request;
    // Before the options: without the model, none of them helps.
    state.pipeline.models.encoder()?;
    let run = PlanRun {
        state,
        context: &context,
        plan: ImageEmbeddingPlan::resolve(&mut options, &state.config)?,
    };
    let convert = |scan| EmbedResult::Image(ImageEmbeddingResult::new(scan, &run.plan));
    let response = run.response(images, convert).await?;
    let dim = state.pipeline.models.vector_len(&run.plan.tasks());
    let write_on = WriteOn::for_vectors(response.results.len(), dim);
    let accepted = Accepted::structured(headers);
    run.write(accepted, response, write_on).await
}
