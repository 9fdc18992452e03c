//! `POST /preprocess`.

use axum::{
    body::Body,
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{CONTENT_TYPE, VARY},
    },
    response::{AppendHeaders, IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use utoipa::ToSchema;

use super::fan_out::{self, Answered};
use crate::{
    config::Dtype,
    http::error::ApiError,
    http::{
        AppState,
        extract::{ImageRequest, admitted::Ticket},
        openapi::{Bytes, bodies::PreprocessBody, failures::ImageFailures},
        respond::{Accepted, respond},
    },
    pipeline::{
        answer::{ErrorEntry, ImageResult, Outcome, Timings},
        preprocess::{PreprocessPlan, PreprocessRequest, Row},
    },
};
use facescan_imaging::{
    npy,
    preprocess::{Layout, Mode, Profile},
};
use facescan_inference::device::DeviceState;

const INDEX: HeaderName = HeaderName::from_static("x-facescan-index");
const ERRORS: HeaderName = HeaderName::from_static("x-facescan-errors");
const PROFILE: HeaderName = HeaderName::from_static("x-facescan-profile");
const DEVICE: HeaderName = HeaderName::from_static("x-facescan-device");

/// The answer of `/preprocess` as a tree.
#[derive(Serialize, ToSchema)]
pub struct PreprocessAnswer {
    /// The request's id.
    request_id: String,
    /// `preprocess`.
    operation: &'static str,
    /// What was asked for and what is in use.
    device: DeviceState,
    /// Milliseconds that the device's graphs took to be ready at start.
    #[serde(skip_serializing_if = "Option::is_none")]
    warm_up_ms: Option<f64>,
    /// Whose resize was matched.
    profile: Profile,
    /// How pictures were fitted.
    mode: Mode,
    /// Whether the channels come first.
    data_format: Layout,
    /// The type of the values, little-endian.
    dtype: Dtype,
    /// The tensor's shape: rows, then a row's.
    shape: [usize; 4],
    /// For each row, which of the request's pictures it is.
    index: Vec<usize>,
    /// The pictures that have no row.
    errors: Vec<FailedImage>,
    /// The values, base64.
    #[serde(serialize_with = "as_base64")]
    #[schema(value_type = String)]
    tensor: Vec<Vec<u8>>,
    /// Milliseconds by stage, one for each row; with `timings=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings_ms: Option<Vec<Timings>>,
}

fn as_base64<S: serde::Serializer>(rows: &[Vec<u8>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(rows.concat()))
}

/// A picture that has no row.
#[derive(Serialize, ToSchema)]
struct FailedImage {
    /// Which of the request's pictures it is.
    index: usize,
    /// The caller's id for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// What is wrong with it.
    error: ErrorEntry,
}

/// Makes a tensor of pictures: resized, normalised, in one batch.
///
/// Without an `Accept` header the answer is the batch as a NumPy file; `x-facescan-index` then lists which picture each row
/// is, `x-facescan-errors` the others as `index:code`. JSON and msgpack have the same as a tree, `multipart/mixed` a NumPy
/// file or a problem for each picture.
#[utoipa::path(
    post, path = "/preprocess", operation_id = "preprocess", tag = "process", params(PreprocessRequest),
    request_body = PreprocessBody,
    responses(
        (status = 200, description = "The tensor", content(
            (Bytes = "application/x-npy"), (PreprocessAnswer = "application/json"), (PreprocessAnswer = "application/msgpack"),
            (Bytes = "multipart/mixed")
        )),
        ImageFailures,
    )
)]
pub async fn preprocess(
    State(state): State<AppState>,
    headers: HeaderMap,
    request: ImageRequest<PreprocessRequest>,
) -> Result<Response, ApiError> {
    let ImageRequest {
        context,
        images,
        options,
        ticket,
        ..
    } = request;
    let plan = options.resolve(&state.config)?;
    let pipeline = &state.pipeline;
    pipeline.check_platform(plan.strict_device)?;
    let answered = fan_out::run(&state.intake, &context, images, |image| {
        let (context, plan) = (&context, &plan);
        async move {
            let mut row = pipeline.preprocess(context, image.bytes, plan).await?;
            let timings = row.timings.after_fetch(image.fetch_ms);
            row.timings = timings;
            Ok((row, timings))
        }
    })
    .await?;
    let times = answered.times();
    let batch = Batch::of(answered);
    let device = pipeline.preprocessing.assignment.state();
    let names = [
        (
            PROFILE,
            HeaderValue::from_static(plan.preprocess.profile.name()),
        ),
        (DEVICE, text(&device.active)?),
        (VARY, HeaderValue::from_static("accept")),
    ];
    let response = match Accepted::tensors(&headers) {
        Accepted::Parts => batch.parts(&plan, ticket),
        accepted @ (Accepted::Json | Accepted::Msgpack) => {
            let answer = PreprocessAnswer {
                request_id: context.id.to_string(),
                operation: "preprocess",
                device,
                warm_up_ms: pipeline.preprocessing.warm_up_ms,
                profile: plan.preprocess.profile,
                mode: plan.preprocess.mode,
                data_format: plan.preprocess.layout,
                dtype: plan.dtype,
                shape: batch.shape(&plan)?,
                index: batch.rows.iter().map(|(index, _)| *index).collect(),
                timings_ms: plan
                    .timings
                    .then(|| batch.rows.iter().map(|(_, row)| row.timings).collect()),
                tensor: batch.rows.into_iter().map(|(_, row)| row.values).collect(),
                errors: batch.failed,
            };
            respond(accepted, &pipeline.pool, answer).await?
        }
        Accepted::Npy | Accepted::Picture(_) => batch.file(&plan, ticket)?,
    };
    Ok((AppendHeaders(times), AppendHeaders(names), response).into_response())
}

fn text(value: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(value).map_err(|error| ApiError::Internal(error.to_string()))
}

/// The rows, each with which picture it is, and the pictures that have none.
struct Batch {
    rows: Vec<(usize, Row)>,
    failed: Vec<FailedImage>,
}

impl Batch {
    fn of(answered: Answered<Row>) -> Self {
        let mut batch = Self {
            rows: Vec::new(),
            failed: Vec::new(),
        };
        for ImageResult { index, id, outcome } in answered.results {
            match outcome {
                Outcome::Ok(row) => batch.rows.push((index, row)),
                Outcome::Error { error } => batch.failed.push(FailedImage { index, id, error }),
            }
        }
        batch
    }

    /// The tensor's shape, of no rows too.
    fn shape(&self, plan: &PreprocessPlan) -> Result<[usize; 4], ApiError> {
        let (w, h) = (
            plan.preprocess.width as usize,
            plan.preprocess.height as usize,
        );
        let usual = match plan.preprocess.layout {
            Layout::Nchw => [3, h, w],
            Layout::Nhwc => [h, w, 3],
        };
        let [a, b, c] = self.rows.first().map_or(usual, |(_, row)| row.shape);
        if self.rows.iter().any(|(_, row)| row.shape != [a, b, c]) {
            return Err(ApiError::invalid_option(
                "mode",
                "short_side gives pictures of other aspects other shapes: ask for multipart/mixed",
            ));
        }
        Ok([self.rows.len(), a, b, c])
    }

    /// One NumPy file.
    fn file(self, plan: &PreprocessPlan, ticket: Ticket) -> Result<Response, ApiError> {
        let head = npy::header(plan.dtype.npy(), &self.shape(plan)?);
        let list = |items: Vec<String>| text(&items.join(","));
        let index = list(
            self.rows
                .iter()
                .map(|(index, _)| index.to_string())
                .collect(),
        )?;
        let failed = |failed: &FailedImage| format!("{}:{}", failed.index, failed.error.code);
        let errors = list(self.failed.iter().map(failed).collect())?;
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("application/x-npy")),
            (INDEX, index),
            (ERRORS, errors),
        ];
        // Row by row, so that the batch is not held twice.
        let rows = self.rows.into_iter().map(|(_, row)| row.values);
        let body = streamed(std::iter::once(head).chain(rows), ticket);
        Ok((headers, body).into_response())
    }

    /// A part for each picture, in order (RFC 2046, 5.1.3).
    fn parts(self, plan: &PreprocessPlan, ticket: Ticket) -> Response {
        const BOUNDARY: &str = "facescan-part-8b1e2f7a4c";
        let mut parts: Vec<(usize, [Vec<u8>; 3])> = Vec::new();
        for (index, row) in self.rows {
            let mut head = format!(
                "--{BOUNDARY}\r\ncontent-type: application/x-npy\r\nx-facescan-index: {index}\r\n\r\n"
            )
            .into_bytes();
            head.extend(npy::header(plan.dtype.npy(), &row.shape));
            parts.push((index, [head, row.values, b"\r\n".to_vec()]));
        }
        for failed in self.failed {
            let problem = serde_json::to_vec(&failed.error).unwrap_or_default();
            let index = failed.index;
            let head = format!(
                "--{BOUNDARY}\r\ncontent-type: application/json\r\nx-facescan-index: {index}\r\n\r\n"
            );
            parts.push((index, [head.into_bytes(), problem, b"\r\n".to_vec()]));
        }
        parts.sort_by_key(|(index, _)| *index);
        let end = format!("--{BOUNDARY}--\r\n").into_bytes();
        let parts = parts.into_iter().flat_map(|(_, part)| part).chain([end]);
        let media_type = format!("multipart/mixed; boundary={BOUNDARY}");
        ([(CONTENT_TYPE, media_type)], streamed(parts, ticket)).into_response()
    }
}

/// A body of pieces. The request counts as in the server until the last of them is gone.
fn streamed(pieces: impl Iterator<Item = Vec<u8>> + Send + 'static, ticket: Ticket) -> Body {
    let pieces = pieces.map(move |piece| {
        let _held = &ticket;
        Ok::<_, std::io::Error>(piece)
    });
    Body::from_stream(futures::stream::iter(pieces))
}
