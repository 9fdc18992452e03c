//! `POST /enhance`.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{AppendHeaders, IntoResponse, Response},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    run::{Responder, run_images},
    single_image,
};
use crate::{
    http::error::ApiError,
    http::{
        AppState,
        extract::ImageRequest,
        openapi::{Bytes, answers::EnhanceAnswer, bodies::EnhanceBody, failures::ImageFailures},
        respond::Accepted,
    },
    pipeline::{
        enhance::{EnhanceRequest, EnhanceResult},
        fan_out::ImageOperation,
    },
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
        permits: _permits,
        ..
    } = request;
    let is_single = single_image::is_requested(accepted, images.len())?;
    if let Accepted::Image(format) = accepted {
        options.format = options.format.or(format);
    }
    let thresholds = &state.pipeline.models.detector.spec.thresholds;
    let plan = options.resolve(&state.config, thresholds)?;
    let results = run_images(&state, &context, images, &plan).await?;
    if is_single && let Some(result) = results.succeeded().next() {
        return Ok((AppendHeaders(results.times()), image(result)).into_response());
    }
    let responder = Responder {
        state: &state,
        context: &context,
        accepted,
        operation: "enhance",
        operations: plan.operations(),
    };
    responder.respond(results, false).await
}

/// Returns the image as the whole answer.
fn image(result: &EnhanceResult) -> Response {
    let enhanced = &result.enhanced;
    let scale = HeaderValue::from_str(&enhanced.scale.to_string());
    let scale = [(SCALE, scale.unwrap_or(HeaderValue::from_static("")))];
    let media_type = enhanced.format.media_type();
    let image = single_image::response(media_type, &enhanced.steps, enhanced.data.clone());
    (scale, image).into_response()
}
