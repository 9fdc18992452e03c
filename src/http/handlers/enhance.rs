//! `POST /enhance`.

use axum::{
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{CONTENT_TYPE, VARY},
    },
    response::{AppendHeaders, IntoResponse, Response},
};

use super::several;
use crate::{
    error::Error,
    http::{
        AppState,
        extract::ImageRequest,
        middleware::request_id::RequestId,
        openapi::{Failure, ImagesBody, MultipartBody, RawPicture},
        respond::{Accepted, respond},
    },
    pipeline::{
        answer::{Answer, ImageResult, Outcome},
        enhance::{EnhanceRequest, EnhanceResult},
    },
};

const SCALE: HeaderName = HeaderName::from_static("x-facescan-scale");
const STEPS: HeaderName = HeaderName::from_static("x-facescan-steps");

/// Makes poor pictures better for detection.
///
/// With `Accept: image/*` the answer is the picture itself; `x-facescan-scale` and
/// `x-facescan-steps` then say what was done.
#[utoipa::path(
    post, path = "/enhance", tag = "scan", params(EnhanceRequest),
    request_body(
        content(
            (RawPicture = "image/*"), (RawPicture = "application/octet-stream"), (MultipartBody = "multipart/form-data"),
            (ImagesBody<EnhanceRequest> = "application/json"), (ImagesBody<EnhanceRequest> = "application/msgpack")
        ),
    ),
    responses(
        (status = 200, description = "One result for each picture, in order", content(
            (Answer<EnhanceResult> = "application/json"), (Answer<EnhanceResult> = "application/msgpack"), (RawPicture = "image/*")
        )),
        Failure,
    )
)]
pub async fn enhance(
    State(state): State<AppState>,
    id: RequestId,
    headers: HeaderMap,
    request: ImageRequest<EnhanceRequest>,
) -> Result<Response, Error> {
    let accepted = Accepted::picture_or_tree(&headers);
    let ImageRequest {
        images,
        mut options,
        ticket: _ticket,
        ..
    } = request;
    if matches!(accepted, Accepted::Picture(_)) && images.len() > 1 {
        return Err(Error::InvalidBody(
            "with `Accept: image/*` one picture at a time; ask for application/json to send several".to_owned(),
        ));
    }
    if let Accepted::Picture(format) = accepted {
        options.format = options.format.or(format);
    }
    let plan = options.resolve(&state.config, &state.pipeline.detector.spec.thresholds)?;
    let operations = plan.operations();
    let pipeline = &state.pipeline;
    pipeline.check_strict(plan.strict_device, &operations)?;
    let answered = several::each(&state.intake, plan.lane, images, &id, |image| {
        let plan = &plan;
        async move {
            let mut enhanced = pipeline.enhance(image.bytes, plan).await?;
            let timings = enhanced.timings.after_fetch(image.fetch_ms);
            enhanced.result.timings_ms = enhanced.result.timings_ms.map(|_| timings);
            Ok((enhanced.result, timings))
        }
    })
    .await?;
    let times = answered.times();
    if matches!(accepted, Accepted::Picture(_))
        && let [
            ImageResult {
                outcome: Outcome::Ok(result),
                ..
            },
        ] = answered.results.as_slice()
    {
        return Ok((AppendHeaders(times), picture(result)).into_response());
    }
    let answer = answered.into_answer(&id, "enhance", pipeline, &operations);
    let response = respond(accepted, &pipeline.pool, answer).await?;
    Ok((AppendHeaders(times), response).into_response())
}

fn picture(result: &EnhanceResult) -> Response {
    let enhanced = &result.enhanced;
    let steps = serde_json::to_string(&enhanced.steps).unwrap_or_default();
    let headers = [
        (VARY, HeaderValue::from_static("accept")),
        (
            CONTENT_TYPE,
            HeaderValue::from_static(enhanced.format.media_type()),
        ),
        (
            SCALE,
            HeaderValue::from_str(&enhanced.scale.to_string())
                .unwrap_or(HeaderValue::from_static("")),
        ),
        (
            STEPS,
            HeaderValue::from_str(&steps).unwrap_or(HeaderValue::from_static("")),
        ),
    ];
    (headers, enhanced.data.clone()).into_response()
}
