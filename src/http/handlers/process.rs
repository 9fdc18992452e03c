//! `POST /process`.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{AppendHeaders, IntoResponse, Response},
};
use facescan_config::EnhancedFormat;
use facescan_pipeline::{
    context::RequestContext,
    ingest::source::ImageInput,
    operations::process::{
        format::ProcessedFormat, plan::ProcessPlan, request::ProcessRequest, result::ProcessResult,
    },
    plan::Plan,
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    run::{PlanRun, WriteOn},
    single_image,
};
use crate::http::{
    AppState,
    error::ApiError,
    extract::ImageRequest,
    openapi::{Bytes, answers::ProcessAnswer, bodies::ProcessBody, failures::ProcessFailures},
    respond::Accepted,
};

/// Returns the routes of this module.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(process))
}

/// Applies a list of operations to images, such as crop, resize, blur, rotate and anonymize.
///
/// With `Accept: image/*` or `application/x-npy` the answer is the image itself. The header `x-facescan-steps` then has
/// the reports of the operations. Masks are parts named `mask`, or `masks` in a body. They apply to all images of the
/// request.
#[utoipa::path(
    post, path = "/process", operation_id = "process", tag = "process", params(ProcessRequest),
    security(("key" = ["infer"])),
    request_body = ProcessBody,
    responses(
        (status = 200, description = "One result for each image, in order", content(
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
        // Holds the reservations until the answer is written.
        reservations: _reservations,
    } = request;
    let is_single = single_image::is_requested(accepted, images.len())?;
    options.format = options.format.or(format_of(accepted));
    let thresholds = &state.pipeline.models.detector.spec.thresholds;
    let plan = options.resolve(&state.config, thresholds, masks.len())?;
    plan.check(&state.pipeline)?;
    let plan = load_masks(&state, &context, plan, masks).await?;
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

/// Returns the plan with its masks. All masks are in memory until they are decoded.
async fn load_masks(
    state: &AppState,
    context: &RequestContext,
    plan: ProcessPlan,
    masks: Vec<ImageInput>,
) -> Result<ProcessPlan, ApiError> {
    let mut loaded = Vec::with_capacity(masks.len());
    for mask in masks {
        loaded.push(state.runner.intake.try_load(mask, context.into()).await?);
    }
    let bytes = loaded.iter().map(|mask| mask.bytes.clone()).collect();
    Ok(state.pipeline.load_masks(context, plan, bytes).await?)
}

/// Returns the format for an accepted type.
fn format_of(accepted: Accepted) -> Option<ProcessedFormat> {
    Some(match accepted {
        Accepted::Npy => ProcessedFormat::Npy,
        Accepted::Image(format) => match format? {
            EnhancedFormat::Jpeg => ProcessedFormat::Jpeg,
            EnhancedFormat::Png => ProcessedFormat::Png,
            EnhancedFormat::Webp => ProcessedFormat::Webp,
            EnhancedFormat::Avif => ProcessedFormat::Avif,
        },
        Accepted::Json | Accepted::Msgpack | Accepted::Parts => return None,
    })
}

/// Returns the only image of the result as the whole answer.
fn image(result: &ProcessResult) -> Result<Response, ApiError> {
    let [processed] = result.processed.as_slice() else {
        return Err(ApiError::invalid_option(
            "operations",
            format!(
                "they made {} images; accept application/json to get them",
                result.processed.len()
            ),
        ));
    };
    let media_type = processed.format.media_type();
    single_image::response(media_type, &result.steps, processed.data.clone())
}
