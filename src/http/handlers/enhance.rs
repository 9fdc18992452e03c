//! `POST /enhance`.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName},
    response::{AppendHeaders, IntoResponse, Response},
};
use facescan_pipeline::operations::enhance::{request::EnhanceRequest, result::EnhanceResult};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    run::{PlanRun, WriteOn},
    single_image,
};
use crate::http::{
    AppState,
    error::ApiError,
    extract::ImageRequest,
    openapi::{Bytes, answers::EnhanceAnswer, bodies::EnhanceBody, failures::ImageFailures},
    respond::{Accepted, header_value},
};

const SCALE: HeaderName = HeaderName::from_static("x-facescan-scale");

/// Returns the routes of this module.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(enhance))
}

/// Enhances images of low quality for detection.
///
/// With `Accept: image/*` the answer is the image itself. The header `x-facescan-scale` then has the scale, and
/// `x-facescan-steps` has the applied steps.
#[utoipa::path(
    post, path = "/enhance", operation_id = "enhance", tag = "process", params(EnhanceRequest),
    security(("key" = ["infer"])),
    request_body = EnhanceBody,
    responses(
        (status = 200, description = "One result for each image, in order", content(
            (EnhanceAnswer = "application/json"), (EnhanceAnswer = "application/msgpack"), (Bytes = "image/*")
        )),
        ImageFailures,
    )
)]
pub async fn enhance(
    State(state): State<AppState>,
    headers: HeaderMap,
    request: ImageRequest<EnhanceRequest>,
) -> Result<Response, ApiError> {
    let accepted = Accepted::image_or_structured(&headers);
    let ImageRequest {
        context,
        images,
        mut options,
        // Holds the reservations until the answer is written.
        reservations: _reservations,
        ..
    } = request;
    let is_single = single_image::is_requested(accepted, images.len())?;
    if let Accepted::Image(format) = accepted {
        options.format = options.format.or(format);
    }
    let thresholds = &state.pipeline.models.detector.spec.thresholds;
    let plan = options.resolve(&state.config, thresholds)?;
    let run = PlanRun {
        state: &state,
        context: &context,
        plan,
    };
    let results = run.results(images).await?;
    if is_single && let Some(result) = results.succeeded().next() {
        return Ok((AppendHeaders(results.times()?), image(result)?).into_response());
    }
    run.respond(accepted, results, WriteOn::OwnThread).await
}

/// Returns the image as the whole answer.
fn image(result: &EnhanceResult) -> Result<Response, ApiError> {
    let enhanced = &result.enhanced;
    let scale = [(SCALE, header_value(&enhanced.scale.to_string())?)];
    let media_type = enhanced.format.media_type();
    let image = single_image::response(media_type, &enhanced.steps, enhanced.data.clone())?;
    Ok((scale, image).into_response())
}
