//! The scans: find the faces of images, and run operations on each face.

use axum::routing::post;
use facescan_pipeline::{
    operation::ScanKind,
    operations::{
        embed_image::ImageEmbeddingPlan,
        scan::request::{EmbedKind, ScanPlan, ScanRequest},
    },
    plan::Plan,
    results::{ImageEmbeddingResult, ScanResult, response::Response, schemas::EmbedResult},
};
use serde::Serialize;
use utoipa::openapi::path::Paths;
use utoipa_axum::router::UtoipaMethodRouter;

use super::run::{PlanRun, WriteOn};
use crate::http::{
    AppState,
    error::ApiError,
    extract::{ImageRequest, api_request::ApiRequest},
    openapi::{
        bodies::ScanBody,
        failures::ImageFailures,
        routes::{self, operations},
    },
    respond::negotiated::Negotiated,
};

/// Returns the route of a scan that has only faces: that of [`embed`] with another path, name and text.
pub fn face_scan(kind: ScanKind) -> UtoipaMethodRouter<AppState> {
    let handler = move |api: ApiRequest, request: ImageRequest<ScanRequest>| async move {
        scan_faces::<ScanResult>(&api, kind, request).await
    };
    let (schemas, of_embed, _): UtoipaMethodRouter<AppState> = utoipa_axum::routes!(embed);
    let mut paths = Paths::new();
    for mut item in of_embed.paths.into_values() {
        for operation in operations(&mut item) {
            operation.operation_id = Some(kind.client_name().to_owned());
            operation.summary = Some(kind.description().to_owned());
            operation.description = None;
        }
        let path = format!("/{}", kind.operation().name());
        paths.paths.insert(path, item);
    }
    let own = (schemas, paths, post(handler));
    routes::add(UtoipaMethodRouter::default(), own, handler)
}

/// Finds the faces of images and computes the vector of each.
///
/// With `kind=image` it computes the vectors of whole images instead.
#[utoipa::path(
    post, path = "/embed", operation_id = ScanKind::Embed.client_name(), tag = "scan", params(ScanRequest),
    request_body = ScanBody,
    responses(ImageFailures)
)]
pub async fn embed(
    api: ApiRequest,
    mut request: ImageRequest<ScanRequest>,
) -> Result<Negotiated<Response<EmbedResult>>, ApiError> {
    match request.options.kind.unwrap_or_default() {
        EmbedKind::Face => scan_faces(&api, ScanKind::Embed, request).await,
        EmbedKind::Image => {
            // Before the options: without the model, none of them helps.
            api.state.pipeline.models.encoder()?;
            let plan = ImageEmbeddingPlan::resolve(&mut request.options, &api.state.config)?;
            let convert = |scan, plan: &ImageEmbeddingPlan| Converted {
                result: EmbedResult::Image(ImageEmbeddingResult::new(scan, plan)),
                vectors: 1,
            };
            scan(&api, plan, request, convert).await
        }
    }
}

/// Scans the faces of the images of a request.
async fn scan_faces<T: From<ScanResult> + Serialize + Send + 'static>(
    api: &ApiRequest,
    kind: ScanKind,
    mut request: ImageRequest<ScanRequest>,
) -> Result<Negotiated<Response<T>>, ApiError> {
    let state = &api.state;
    let thresholds = &state.pipeline.models.detector.spec.thresholds;
    let plan = request.options.resolve(kind, &state.config, thresholds)?;
    let convert = |scan, plan: &ScanPlan| {
        let result = ScanResult::new(scan, plan);
        Converted {
            // A crop takes longer to write than all vectors that the thread of a handler writes.
            vectors: if plan.crops {
                usize::MAX
            } else {
                result.faces.len()
            },
            result: T::from(result),
        }
    };
    scan(api, plan, request, convert).await
}

/// The result of an image.
struct Converted<T> {
    result: T,
    /// The number of its faces or vectors, for the time that it takes to write them.
    vectors: usize,
}

/// Runs a plan on the images of a request.
async fn scan<P: Plan, T: Serialize + Send + 'static>(
    api: &ApiRequest,
    plan: P,
    request: ImageRequest<ScanRequest>,
    convert: impl Fn(P::Output, &P) -> Converted<T>,
) -> Result<Negotiated<Response<T>>, ApiError> {
    let run = PlanRun {
        state: &api.state,
        context: &request.context,
        plan,
    };
    let mut vectors = 0usize;
    let convert = |output| {
        let converted = convert(output, &run.plan);
        vectors = vectors.saturating_add(converted.vectors);
        converted.result
    };
    let response = run.response(request.content.images, convert).await?;
    let dim = api.state.pipeline.models.vector_len(&run.plan.tasks());
    let write_on = WriteOn::for_vectors(vectors, dim);
    run.write(api.accepted, response, write_on).await
}
