//! `POST /enhance`.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName},
    response::IntoResponse,
};
use facescan_pipeline::{
    operations::enhance::{request::EnhanceRequest, result::EnhanceResult},
    results::response::Response,
};

use super::{run::PlanRun, single_image};
use crate::http::{
    AppState,
    error::ApiError,
    extract::ImageRequest,
    openapi::{bodies::EnhanceBody, failures::ImageFailures},
    respond::{
        Accepted, header_value,
        negotiated::{FileOr, InFile},
    },
};

const SCALE: HeaderName = HeaderName::from_static("x-facescan-scale");

impl InFile for Response<EnhanceResult> {
    const TYPES: &'static [&'static str] = &["image/*"];
}

/// Enhances images of low quality for detection.
///
/// With `Accept: image/*` the response is the image itself. The header `x-facescan-scale` then has the scale, and
/// `x-facescan-steps` has the applied steps.
#[utoipa::path(
    post, path = "/enhance", operation_id = "enhance", tag = "process", params(EnhanceRequest),
    request_body = EnhanceBody,
    responses(ImageFailures)
)]
pub async fn enhance(
    State(state): State<AppState>,
    headers: HeaderMap,
    mut request: ImageRequest<EnhanceRequest>,
) -> Result<FileOr<Response<EnhanceResult>>, ApiError> {
    let accepted = Accepted::image_or_structured(&headers);
    let images = request.content.images;
    let options = &mut request.options;
    let is_single = single_image::is_requested(accepted, images.len())?;
    if let Accepted::Image(format) = accepted {
        options.format = options.format.or(format);
    }
    let thresholds = &state.pipeline.models.detector.spec.thresholds;
    let run = PlanRun {
        state: &state,
        context: &request.context,
        plan: options.resolve(&state.config, thresholds)?,
    };
    let response = run.response(images, |result| result).await?;
    let file = |result: &EnhanceResult| {
        let enhanced = &result.enhanced;
        let scale = [(SCALE, header_value(&enhanced.scale.to_string())?)];
        let media_type = enhanced.format.media_type();
        let image = single_image::response(media_type, &enhanced.steps, enhanced.data.clone())?;
        Ok::<_, ApiError>((scale, image).into_response())
    };
    run.write_file_or_body(accepted, response, is_single.then_some(file))
        .await
}
