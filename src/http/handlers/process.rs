//! `POST /process`.

use axum::{extract::State, http::HeaderMap};
use facescan_config::EnhancedFormat;
use facescan_pipeline::{
    context::RequestContext,
    ingest::source::ImageInput,
    operations::process::{
        request::{ProcessPlan, ProcessRequest},
        result::{ProcessResult, ProcessedFormat},
    },
    plan::Plan,
    results::response::Response,
};

use super::{run::PlanRun, single_image};
use crate::http::{
    AppState,
    error::ApiError,
    extract::{ImageRequest, Images},
    openapi::{bodies::ProcessBody, failures::ProcessFailures},
    respond::{
        Accepted,
        negotiated::{FileOr, InFile},
    },
};

impl InFile for Response<ProcessResult> {
    const TYPES: &'static [&'static str] = &["image/*", "application/x-npy"];
}

/// Applies a list of operations to images, such as crop, resize, blur, rotate and anonymize.
///
/// With `Accept: image/*` or `application/x-npy` the response is the image itself. The header `x-facescan-steps` then has
/// the reports of the operations. Masks are parts named `mask`, or `masks` in a body. They apply to all images of the
/// request.
#[utoipa::path(
    post, path = "/process", operation_id = "process", tag = "process", params(ProcessRequest),
    request_body = ProcessBody,
    responses(ProcessFailures)
)]
pub async fn process(
    State(state): State<AppState>,
    headers: HeaderMap,
    mut request: ImageRequest<ProcessRequest>,
) -> Result<FileOr<Response<ProcessResult>>, ApiError> {
    let accepted = Accepted::any(&headers);
    let Images { images, masks, .. } = request.content;
    let (context, options) = (&request.context, &mut request.options);
    let is_single = single_image::is_requested(accepted, images.len())?;
    options.format = options.format.or(format_of(accepted));
    let thresholds = &state.pipeline.models.detector.spec.thresholds;
    let plan = options.resolve(&state.config, thresholds, masks.len())?;
    plan.check(&state.pipeline)?;
    let run = PlanRun {
        state: &state,
        context,
        plan: load_masks(&state, context, plan, masks).await?,
    };
    let response = run.response(images, |result| result).await?;
    let file = |result: &ProcessResult| {
        let [processed] = result.processed.as_slice() else {
            let detail = format!(
                "they made {} images; accept application/json to get them",
                result.processed.len()
            );
            return Err(ApiError::invalid_option("operations", detail));
        };
        let media_type = processed.format.media_type();
        single_image::response(media_type, &result.steps, processed.data.clone())
    };
    run.write_file_or_body(accepted, response, is_single.then_some(file))
        .await
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
