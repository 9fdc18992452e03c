//! `POST /embed?kind=image`: vectors of whole pictures.

use axum::{
    http::HeaderMap,
    response::{AppendHeaders, IntoResponse, Response},
};

use super::fan_out;
use crate::{
    http::error::ApiError,
    http::{
        AppState,
        extract::ImageRequest,
        respond::{Accepted, respond, respond_small},
    },
    ingest::intake::Loaded,
    pipeline::{
        encode::{EncodePlan, EncodeResult, Encoded, OPERATIONS},
        options::ScanRequest,
    },
};

/// Answers with more vectors are written on the CPU pool.
const FEW_VECTORS: usize = 8;

/// Embeds every picture of a request as a whole.
pub(super) async fn encode(
    state: &AppState,
    headers: &HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Response, ApiError> {
    let ImageRequest {
        context,
        images,
        options,
        ticket: _ticket,
        ..
    } = request;
    let plan = EncodePlan::resolve(options, &state.config)?;
    let pipeline = &state.pipeline;
    pipeline.encoder()?;
    pipeline.check_strict(plan.strict_device, &OPERATIONS)?;
    pipeline.check_platform(plan.strict_device)?;
    let one = async |image: Loaded| {
        let encoded = pipeline.encode(&context, image.bytes, &plan).await?;
        let timings = encoded.timings.after_fetch(image.fetch_ms);
        let encoded = Encoded { timings, ..encoded };
        Ok((EncodeResult::new(encoded, &plan), timings))
    };
    let answered = fan_out::run(&state.intake, &context, images, one).await?;
    let times = answered.times();
    let mut answer = answered.into_answer(&context, "embed", pipeline, &OPERATIONS);
    let resized_on = pipeline.preprocessing.assignment.state();
    answer.devices.insert("preprocessing", resized_on);
    let accepted = Accepted::structured(headers);
    let response = if answer.results.len() <= FEW_VECTORS {
        respond_small(accepted, &answer)?
    } else {
        respond(accepted, &pipeline.pool, answer).await?
    };
    Ok((AppendHeaders(times), response).into_response())
}
