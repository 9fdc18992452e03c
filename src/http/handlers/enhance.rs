//! `POST /enhance`.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{AppendHeaders, IntoResponse, Response},
};

use super::{fan_out, single_image};
use crate::{
    http::error::ApiError,
    http::{
        AppState,
        extract::ImageRequest,
        openapi::{Bytes, answers::EnhanceAnswer, bodies::EnhanceBody, failures::ImageFailures},
        respond::{Accepted, respond},
    },
    pipeline::{
        answer::{ImageResult, Outcome},
        enhance::{EnhanceRequest, EnhanceResult},
    },
};

const SCALE: HeaderName = HeaderName::from_static("x-facescan-scale");

/// Makes poor pictures better for detection.
///
/// With `Accept: image/*` the answer is the picture itself; `x-facescan-scale` and
/// `x-facescan-steps` then say what was done.
#[utoipa::path(
    post, path = "/enhance", operation_id = "enhance", tag = "scan", params(EnhanceRequest),
    request_body = EnhanceBody,
    responses(
        (status = 200, description = "One result for each picture, in order", content(
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
        ticket: _ticket,
        ..
    } = request;
    let is_alone = single_image::is_asked_for(accepted, images.len())?;
    if let Accepted::Picture(format) = accepted {
        options.format = options.format.or(format);
    }
    let plan = options.resolve(&state.config, &state.pipeline.detector.spec.thresholds)?;
    let operations = plan.operations();
    let pipeline = &state.pipeline;
    pipeline.check_strict(plan.strict_device, &operations)?;
    let answered = fan_out::run(&state.intake, &context, images, |image| {
        let (context, plan) = (&context, &plan);
        async move {
            let mut enhanced = pipeline.enhance(context, image.bytes, plan).await?;
            let timings = enhanced.timings.after_fetch(image.fetch_ms);
            enhanced.result.timings_ms = enhanced.result.timings_ms.map(|_| timings);
            Ok((enhanced.result, timings))
        }
    })
    .await?;
    let times = answered.times();
    if is_alone
        && let [
            ImageResult {
                outcome: Outcome::Ok(result),
                ..
            },
        ] = answered.results.as_slice()
    {
        return Ok((AppendHeaders(times), picture(result)).into_response());
    }
    let answer = answered.into_answer(&context, "enhance", pipeline, &operations);
    let response = respond(accepted, &pipeline.pool, answer).await?;
    Ok((AppendHeaders(times), response).into_response())
}

fn picture(result: &EnhanceResult) -> Response {
    let enhanced = &result.enhanced;
    let scale = HeaderValue::from_str(&enhanced.scale.to_string());
    let scale = [(SCALE, scale.unwrap_or(HeaderValue::from_static("")))];
    let media_type = enhanced.format.media_type();
    let picture = single_image::picture(media_type, &enhanced.steps, enhanced.data.clone());
    (scale, picture).into_response()
}
