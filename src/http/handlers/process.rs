//! `POST /process`.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{AppendHeaders, IntoResponse, Response},
};

use super::{fan_out, single_image};
use crate::{
    config::EnhancedFormat,
    context::RequestContext,
    http::error::ApiError,
    http::{
        AppState,
        extract::ImageRequest,
        openapi::{Bytes, answers::ProcessAnswer, bodies::ProcessBody, failures::ProcessFailures},
        respond::{Accepted, respond},
    },
    ingest::source::ImageInput,
    pipeline::{
        answer::{ImageResult, Outcome},
        process::{ProcessPlan, ProcessRequest, ProcessResult, ProcessedFormat},
    },
};

/// Does a list of operations on pictures: crops, resizes, blurs, turns, anonymises.
///
/// With `Accept: image/*` or `application/x-npy` the answer is the picture itself; `x-facescan-steps` then says what was
/// done. Masks come as parts named `mask`, or as `masks` in a body, and belong to all of the request's pictures.
#[utoipa::path(
    post, path = "/process", operation_id = "process", tag = "process", params(ProcessRequest),
    request_body = ProcessBody,
    responses(
        (status = 200, description = "One result for each picture, in order", content(
            (ProcessAnswer = "application/json"), (ProcessAnswer = "application/msgpack"),
            (Bytes = "image/*"), (Bytes = "application/x-npy")
        )),
        ProcessFailures,
    )
)]
pub async fn process(
    State(state): State<AppState>,
    headers: HeaderMap,
    request: ImageRequest<ProcessRequest>,
) -> Result<Response, ApiError> {
    let accepted = Accepted::any(&headers);
    let ImageRequest {
        context,
        images,
        masks,
        mut options,
        ticket: _ticket,
    } = request;
    let is_alone = single_image::is_asked_for(accepted, images.len())?;
    options.format = options.format.or(format_of(accepted));
    let pipeline = &state.pipeline;
    let thresholds = &pipeline.detector.spec.thresholds;
    let plan = options.resolve(&state.config, thresholds, masks.len())?;
    let operations = plan.operations();
    pipeline.check_strict(plan.strict_device, &operations)?;
    let plan = masked(&state, &context, plan, masks).await?;
    let answered = fan_out::run(&state.intake, &context, images, |image| {
        let (context, plan) = (&context, &plan);
        async move {
            let mut processed = pipeline.process(context, image.bytes, plan).await?;
            let timings = processed.timings.after_fetch(image.fetch_ms);
            processed.result.timings_ms = processed.result.timings_ms.map(|_| timings);
            Ok((processed.result, timings))
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
        return Ok((AppendHeaders(times), picture(result)?).into_response());
    }
    let answer = answered.into_answer(&context, "process", pipeline, &operations);
    let response = respond(accepted, &pipeline.pool, answer).await?;
    Ok((AppendHeaders(times), response).into_response())
}

/// The plan with its masks, which are all held until they are decoded.
async fn masked(
    state: &AppState,
    context: &RequestContext,
    plan: ProcessPlan,
    masks: Vec<ImageInput>,
) -> Result<ProcessPlan, ApiError> {
    let mut loaded = Vec::with_capacity(masks.len());
    for mask in masks {
        loaded.push(state.intake.load_at_once(mask, context.priority).await?);
    }
    let bytes = loaded.iter().map(|mask| mask.bytes.clone()).collect();
    Ok(state.pipeline.masked(context, plan, bytes).await?)
}

/// The format that an accepted type names.
fn format_of(accepted: Accepted) -> Option<ProcessedFormat> {
    Some(match accepted {
        Accepted::Npy => ProcessedFormat::Npy,
        Accepted::Picture(format) => match format? {
            EnhancedFormat::Jpeg => ProcessedFormat::Jpeg,
            EnhancedFormat::Png => ProcessedFormat::Png,
            EnhancedFormat::Webp => ProcessedFormat::Webp,
            EnhancedFormat::Avif => ProcessedFormat::Avif,
        },
        Accepted::Json | Accepted::Msgpack | Accepted::Parts => return None,
    })
}

/// The one picture that there is.
fn picture(result: &ProcessResult) -> Result<Response, ApiError> {
    let [picture] = result.processed.as_slice() else {
        return Err(ApiError::invalid_option(
            "operations",
            format!(
                "they made {} pictures: ask for application/json to get them",
                result.processed.len()
            ),
        ));
    };
    let media_type = picture.format.media_type();
    Ok(single_image::picture(
        media_type,
        &result.steps,
        picture.data.clone(),
    ))
}
