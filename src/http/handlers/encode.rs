//! `POST /embed?kind=image`: vectors of whole pictures.

use axum::{
    http::HeaderMap,
    response::{AppendHeaders, IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::several;
use crate::{
    error::Error,
    http::{
        AppState,
        extract::ImageRequest,
        middleware::request_id::RequestId,
        respond::{Accepted, respond, respond_small},
    },
    ingest::source::ImageInput,
    pipeline::{
        answer::{Answer, ScanResult},
        encode::{EncodePlan, EncodeResult, OPERATIONS},
        options::ScanRequest,
    },
};

/// Answers with more vectors are written on the CPU pool.
const FEW_VECTORS: usize = 8;

/// The result of `/embed` for one image: its faces, or with `kind=image` the picture's own vector.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    reason = "it describes the answer, where either stands by itself"
)]
pub enum EmbedResult {
    /// The faces and their vectors.
    Faces(ScanResult),
    /// The whole picture's vector.
    Image(EncodeResult),
}

/// Embeds every picture of a request as a whole.
pub(super) async fn encode(
    state: &AppState,
    id: RequestId,
    headers: &HeaderMap,
    request: ImageRequest<ScanRequest>,
) -> Result<Response, Error> {
    let ImageRequest {
        images,
        options,
        ticket: _ticket,
        ..
    } = request;
    let plan = EncodePlan::resolve(options, &state.config)?;
    let pipeline = &state.pipeline;
    pipeline.encoder()?;
    pipeline.check_strict(plan.strict_device, &OPERATIONS)?;
    let one = async |image: ImageInput| {
        let encoded = pipeline.encode(image.bytes?, &plan).await?;
        let timings = encoded.timings;
        Ok((EncodeResult::new(encoded, &plan), timings))
    };
    let answered = several::each(images, &id.to_string(), one).await?;
    let times = answered.times();
    let answer = Answer {
        request_id: id.to_string(),
        operation: "embed",
        models: pipeline.models_used(&OPERATIONS),
        devices: pipeline.devices_of(&OPERATIONS),
        results: answered.results,
    };
    tracing::debug!(
        request_id = answer.request_id,
        operation = answer.operation,
        images = answer.results.len(),
        results = answer
            .results
            .iter()
            .filter(|result| result.outcome.is_ok())
            .count(),
        "batch completed"
    );
    let accepted = Accepted::tree(headers);
    let response = if answer.results.len() <= FEW_VECTORS {
        respond_small(accepted, &answer)?
    } else {
        respond(accepted, &pipeline.pool, answer).await?
    };
    Ok((AppendHeaders(times), response).into_response())
}
