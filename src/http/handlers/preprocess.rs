//! `POST /preprocess`.

use axum::{
    body::Body,
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{ACCEPT, CONTENT_TYPE, VARY},
    },
    response::{AppendHeaders, IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use utoipa::ToSchema;

use super::several::{self, Answered};
use crate::{
    config::Dtype,
    error::Error,
    http::{
        AppState,
        extract::ImageRequest,
        middleware::request_id::RequestId,
        openapi::{Failure, ImagesBody, MultipartBody, RawPicture},
        respond::{Accepted, respond},
    },
    imaging::{
        npy,
        preprocess::{Layout, Mode, Profile},
    },
    inference::device::DeviceState,
    pipeline::{
        answer::{ErrorEntry, ImageResult, Outcome, Timings},
        preprocess::{PreprocessPlan, PreprocessRequest, Row},
    },
};

const INDEX: HeaderName = HeaderName::from_static("x-facescan-index");
const ERRORS: HeaderName = HeaderName::from_static("x-facescan-errors");
const PROFILE: HeaderName = HeaderName::from_static("x-facescan-profile");
const DEVICE: HeaderName = HeaderName::from_static("x-facescan-device");

/// Most bytes of one answer's tensor.
const MOST_BYTES: usize = 1 << 30;

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
    tensor: String,
    /// Milliseconds by stage, one for each row; with `timings=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings_ms: Option<Vec<Timings>>,
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
    post, path = "/preprocess", tag = "process", params(PreprocessRequest),
    request_body(
        content(
            (RawPicture = "image/*"), (RawPicture = "application/octet-stream"), (MultipartBody = "multipart/form-data"),
            (ImagesBody<PreprocessRequest> = "application/json"), (ImagesBody<PreprocessRequest> = "application/msgpack")
        ),
    ),
    responses(
        (status = 200, description = "The tensor", content(
            (RawPicture = "application/x-npy"), (PreprocessAnswer = "application/json"), (PreprocessAnswer = "application/msgpack"),
            (RawPicture = "multipart/mixed")
        )),
        Failure,
    )
)]
pub async fn preprocess(
    State(state): State<AppState>,
    id: RequestId,
    headers: HeaderMap,
    request: ImageRequest<PreprocessRequest>,
) -> Result<Response, Error> {
    let ImageRequest {
        images,
        options,
        ticket: _ticket,
        ..
    } = request;
    let plan = options.resolve(&state.config)?;
    let pipeline = &state.pipeline;
    pipeline.check_platform(plan.strict_device)?;
    let side = |side: u32| side as usize;
    let row = 3 * side(plan.preprocess.height) * side(plan.preprocess.width) * plan.dtype.size();
    if row * images.len() > MOST_BYTES {
        return Err(Error::invalid_option(
            "images",
            format!("their tensor would have more than {MOST_BYTES} bytes; send fewer"),
        ));
    }
    let answered = several::each(images, &id.to_string(), |image| {
        let plan = &plan;
        async move {
            let row = pipeline.preprocess(image.bytes?, plan).await?;
            let timings = row.timings;
            Ok((row, timings))
        }
    })
    .await?;
    let times = answered.times();
    let batch = Batch::of(answered);
    let device = pipeline.preprocessing.assignment.state();
    let names = [
        (PROFILE, name_of(&plan.preprocess.profile)?),
        (DEVICE, text(&device.active)?),
        (VARY, HeaderValue::from_static("accept")),
    ];
    let response = if accepts_parts(&headers) {
        batch.parts(&plan)
    } else if let accepted @ (Accepted::Json | Accepted::Msgpack) = accepted(&headers) {
        let answer = PreprocessAnswer {
            request_id: id.to_string(),
            operation: "preprocess",
            device,
            warm_up_ms: pipeline.preprocessing.warm_up_ms,
            profile: plan.preprocess.profile,
            mode: plan.preprocess.mode,
            data_format: plan.preprocess.layout,
            dtype: plan.dtype,
            shape: batch.shape(&plan)?,
            index: batch.rows.iter().map(|(index, _)| *index).collect(),
            tensor: BASE64_STANDARD.encode(batch.values()),
            timings_ms: plan
                .timings
                .then(|| batch.rows.iter().map(|(_, row)| row.timings).collect()),
            errors: batch.failed,
        };
        respond(accepted, &pipeline.pool, answer).await?
    } else {
        batch.file(&plan)?
    };
    Ok((AppendHeaders(times), AppendHeaders(names), response).into_response())
}

/// What is accepted; a NumPy file when nothing is said.
fn accepted(headers: &HeaderMap) -> Accepted {
    let says = |text: &str| {
        let mut values = headers.get_all(ACCEPT).iter();
        values.any(|value| value.to_str().is_ok_and(|value| value.contains(text)))
    };
    if says("json") || says("msgpack") {
        Accepted::tree(headers)
    } else {
        Accepted::Npy
    }
}

fn accepts_parts(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT).iter();
    values.any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.contains("multipart/mixed"))
    })
}

fn text(value: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(value).map_err(|error| Error::Internal(error.to_string()))
}

fn name_of(profile: &Profile) -> Result<HeaderValue, Error> {
    let name = serde_json::to_value(profile).map_err(|error| Error::Internal(error.to_string()))?;
    text(name.as_str().unwrap_or_default())
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
    fn shape(&self, plan: &PreprocessPlan) -> Result<[usize; 4], Error> {
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
            return Err(Error::invalid_option(
                "mode",
                "short_side gives pictures of other aspects other shapes: ask for multipart/mixed",
            ));
        }
        Ok([self.rows.len(), a, b, c])
    }

    fn values(&self) -> Vec<u8> {
        let rows: Vec<&[u8]> = self
            .rows
            .iter()
            .map(|(_, row)| row.values.as_slice())
            .collect();
        rows.concat()
    }

    /// One NumPy file.
    fn file(self, plan: &PreprocessPlan) -> Result<Response, Error> {
        let head = npy::head(plan.dtype.npy(), &self.shape(plan)?);
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
        let parts = std::iter::once(head)
            .chain(rows)
            .map(Ok::<_, std::io::Error>);
        Ok((headers, Body::from_stream(futures::stream::iter(parts))).into_response())
    }

    /// A part for each picture, in order (RFC 2046, 5.1.3).
    fn parts(self, plan: &PreprocessPlan) -> Response {
        const BOUNDARY: &str = "facescan-part-8b1e2f7a4c";
        let mut parts: Vec<(usize, Vec<u8>)> = Vec::new();
        for (index, row) in self.rows {
            let mut part = format!(
                "--{BOUNDARY}\r\ncontent-type: application/x-npy\r\nx-facescan-index: {index}\r\n\r\n"
            )
            .into_bytes();
            part.extend(npy::head(plan.dtype.npy(), &row.shape));
            part.extend(row.values);
            part.extend(b"\r\n");
            parts.push((index, part));
        }
        for failed in self.failed {
            let problem = serde_json::to_string(&failed.error).unwrap_or_default();
            let index = failed.index;
            let part = format!(
                "--{BOUNDARY}\r\ncontent-type: application/json\r\nx-facescan-index: {index}\r\n\r\n{problem}\r\n"
            );
            parts.push((index, part.into_bytes()));
        }
        parts.sort_by_key(|(index, _)| *index);
        let end = format!("--{BOUNDARY}--\r\n").into_bytes();
        let body = parts.into_iter().map(|(_, part)| part).chain([end]);
        let media_type = format!("multipart/mixed; boundary={BOUNDARY}");
        let body = Body::from_stream(futures::stream::iter(body.map(Ok::<_, std::io::Error>)));
        ([(CONTENT_TYPE, media_type)], body).into_response()
    }
}
