//! `POST /preprocess`.

use axum::{
    body::Body,
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{CONTENT_TYPE, VARY},
    },
    response::{AppendHeaders, IntoResponse},
};
use facescan_config::Dtype;
use facescan_pipeline::{
    Pipeline,
    core::{base64_text, run::Timings},
    models::preprocessing::PREPROCESSING,
    operations::preprocess::{PreprocessPlan, PreprocessRequest, Row},
    plan::Plan as _,
    results::{
        ErrorEntry,
        response::{Outcome, Response, Success},
    },
};
use serde::Serialize;
use utoipa::ToSchema;

use super::run::{PlanRun, times};
use crate::http::{
    AppState,
    error::ApiError,
    extract::{ImageRequest, Images, RequestReservations},
    openapi::{bodies::PreprocessBody, failures::ImageFailures},
    respond::{
        Accepted, header_value,
        negotiated::{FileOr, InFile, Negotiated},
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
/// The media type of a NumPy file.
const NPY: &str = "application/x-npy";
const DEVICE: HeaderName = HeaderName::from_static("x-facescan-device");

/// The tensor of the images, and those that failed.
#[derive(Serialize, ToSchema)]
pub struct PreprocessResponse {
    /// The id of the request.
    request_id: String,
    /// `preprocess`.
    operation: &'static str,
    /// The requested device and the device that made all or most of the rows.
    device: DeviceState,
    /// The milliseconds that the device's graphs needed for the warm-up at start.
    #[serde(skip_serializing_if = "Option::is_none")]
    warm_up_ms: Option<f64>,
    /// The library whose resize was reproduced.
    profile: Profile,
    /// How images with another aspect ratio were fitted.
    mode: Mode,
    /// Whether the channels are the first dimension.
    data_format: Layout,
    /// The data type of the values, little-endian.
    dtype: Dtype,
    /// The shape of the tensor: the number of rows, then the shape of a row.
    shape: [usize; 4],
    /// For each row, the index of its image in the request.
    index: Vec<usize>,
    /// For each row, the device that made it. Absent if `device` made all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Vec<DeviceState>>,
    /// The images without a row.
    errors: Vec<FailedImage>,
    /// The values, in base64.
    #[serde(serialize_with = "base64_text::serialize_rows")]
    #[schema(value_type = String)]
    tensor: Vec<bytes::Bytes>,
    /// Milliseconds by stage, one entry for each row. Present with `timings=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings_ms: Option<Vec<Timings>>,
}

/// An image without a row.
#[derive(Serialize, ToSchema)]
struct FailedImage {
    /// The index of the image in the request.
    index: usize,
    /// The caller's id of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The error of the image.
    error: ErrorEntry,
}

impl InFile for PreprocessResponse {
    const TYPES: &'static [&'static str] = &[NPY, "multipart/mixed"];
}

/// Makes a tensor of images: resized, normalized, in one batch.
///
/// Without an `Accept` header the response is a NumPy file. The header `x-facescan-index` then has the index of the image
/// of each row, and `x-facescan-errors` has the failed images as `index:code`. JSON and msgpack responses contain the
/// same data. A `multipart/mixed` response has a NumPy file or an error for each image.
#[utoipa::path(
    post, path = "/preprocess", operation_id = "preprocess", tag = "process", params(PreprocessRequest),
    request_body = PreprocessBody,
    responses(ImageFailures)
)]
pub async fn preprocess(
    State(state): State<AppState>,
    request_headers: HeaderMap,
    request: ImageRequest<PreprocessRequest>,
) -> Result<FileOr<PreprocessResponse>, ApiError> {
    let ImageRequest {
        context,
        content: Images { images, .. },
        options,
        reservations,
    } = request;
    let run = PlanRun {
        state: &state,
        context: &context,
        plan: options.resolve(&state.config)?,
    };
    let response = run.response(images, |row| row).await?;
    let [queue, inference] = times(&response)?;
    let plan = &run.plan;
    let batch = Batch::new(response, &state.pipeline);
    let profile = HeaderValue::from_static(plan.preprocess.profile.name());
    let device_names = header_value(&batch.device_names())?;
    let headers = [queue, inference, (PROFILE, profile), (DEVICE, device_names)];
    let file = match Accepted::tensors(&request_headers) {
        Accepted::Parts => batch.parts(plan, reservations)?,
        accepted @ (Accepted::Json | Accepted::Msgpack) => {
            let response = PreprocessResponse {
                request_id: context.id.to_string(),
                operation: plan.operation().name(),
                devices: batch.row_devices(),
                shape: batch.shape(plan)?,
                device: batch.device,
                warm_up_ms: state.pipeline.preprocessing.warm_up_ms,
                profile: plan.preprocess.profile,
                mode: plan.preprocess.mode,
                data_format: plan.preprocess.layout,
                dtype: plan.dtype,
                index: batch.rows.iter().map(|row| row.index).collect(),
                timings_ms: plan.run.timings.then(|| {
                    let timings = batch.rows.iter().map(|row| row.timings_ms);
                    timings.map(Option::unwrap_or_default).collect()
                }),
                tensor: {
                    let rows = batch.rows.into_iter();
                    rows.map(|row| row.result.values).collect()
                },
                errors: batch.failed,
            };
            let written = Negotiated::large(&context, accepted, response).await?;
            return Ok(FileOr::Body(written.with_headers(headers)));
        }
        Accepted::Npy | Accepted::Image(_) => batch.file(plan, reservations)?,
    };
    let vary = [(VARY, HeaderValue::from_static("accept"))];
    Ok(FileOr::File(
        (AppendHeaders(headers), vary, file).into_response(),
    ))
}

/// The rows, and the images without a row.
struct Batch {
    rows: Vec<Success<Row>>,
    failed: Vec<FailedImage>,
    /// The device that made most of the rows, or the active one if there are no rows.
    device: DeviceState,
}

/// Returns the device that made a row, if it differs from that of most rows.
fn own_device(row: &Success<Row>) -> Option<&DeviceState> {
    row.devices.as_ref()?.get(PREPROCESSING)
}

impl Batch {
    fn new(mut response: Response<Row>, pipeline: &Pipeline) -> Self {
        let device = response.devices.remove(PREPROCESSING);
        let mut batch = Self {
            rows: Vec::new(),
            failed: Vec::new(),
            device: device.unwrap_or_else(|| pipeline.preprocessing.assignment.state()),
        };
        for outcome in response.results {
            match outcome {
                Outcome::Ok(success) => batch.rows.push(success),
                Outcome::Error(failure) => batch.failed.push(FailedImage {
                    index: failure.index,
                    id: failure.id,
                    error: failure.error,
                }),
            }
        }
        batch
    }

    /// Returns the device of each row, or `None` if one device made all of them.
    fn row_devices(&self) -> Option<Vec<DeviceState>> {
        let differs = self.rows.iter().any(|row| own_device(row).is_some());
        let device = |row: &Success<Row>| own_device(row).unwrap_or(&self.device).clone();
        differs.then(|| self.rows.iter().map(device).collect())
    }

    /// Returns the name of the device, or one name for each row if they differ.
    fn device_names(&self) -> String {
        match self.row_devices() {
            None => self.device.active.clone(),
            Some(devices) => {
                let names: Vec<_> = devices.into_iter().map(|device| device.active).collect();
                names.join(",")
            }
        }
    }

    /// Returns the shape of the tensor, even if it has no rows.
    fn shape(&self, plan: &PreprocessPlan) -> Result<[usize; 4], ApiError> {
        let (w, h) = (
            plan.preprocess.width as usize,
            plan.preprocess.height as usize,
        );
        let usual = match plan.preprocess.layout {
            Layout::Nchw => [3, h, w],
            Layout::Nhwc => [h, w, 3],
        };
        let [a, b, c] = self.rows.first().map_or(usual, |row| row.result.shape);
        if self.rows.iter().any(|row| row.result.shape != [a, b, c]) {
            return Err(ApiError::invalid_option(
                "mode",
                "short_side gives images of different aspect ratios different shapes; accept multipart/mixed, or use another mode",
            ));
        }
        Ok([self.rows.len(), a, b, c])
    }

    /// Returns one NumPy file.
    fn file(
        self,
        plan: &PreprocessPlan,
        reservations: RequestReservations,
    ) -> Result<axum::response::Response, ApiError> {
        let head = npy::header(plan.dtype.npy(), &self.shape(plan)?);
        let list = |items: Vec<String>| header_value(&items.join(","));
        let index = list(self.rows.iter().map(|row| row.index.to_string()).collect())?;
        let failed = |failed: &FailedImage| format!("{}:{}", failed.index, failed.error.code);
        let errors = list(self.failed.iter().map(failed).collect())?;
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(NPY)),
            (INDEX, index),
            (ERRORS, errors),
        ];
        // Row by row, so that the batch is not in memory twice.
        let rows = self.rows.into_iter().map(|row| row.result.values);
        let body = stream_body(std::iter::once(head.into()).chain(rows), reservations);
        Ok((headers, body).into_response())
    }

    /// Returns one part for each image, in order (RFC 2046, 5.1.3).
    fn parts(
        self,
        plan: &PreprocessPlan,
        reservations: RequestReservations,
    ) -> Result<axum::response::Response, ApiError> {
        const BOUNDARY: &str = "facescan-part-8b1e2f7a4c";
        const LINE_END: bytes::Bytes = bytes::Bytes::from_static(b"\r\n");
        let mut parts: Vec<(usize, [bytes::Bytes; 3])> = Vec::new();
        for Success {
            index, result: row, ..
        } in self.rows
        {
            let mut head =
                format!("--{BOUNDARY}\r\ncontent-type: {NPY}\r\nx-facescan-index: {index}\r\n\r\n")
                    .into_bytes();
            head.extend(npy::header(plan.dtype.npy(), &row.shape));
            parts.push((index, [head.into(), row.values, LINE_END]));
        }
        for failed in self.failed {
            let problem = serde_json::to_vec(&failed.error)
                .map_err(|error| ApiError::Internal(error.to_string()))?;
            let index = failed.index;
            let head = format!(
                "--{BOUNDARY}\r\ncontent-type: application/json\r\nx-facescan-index: {index}\r\n\r\n"
            );
            parts.push((index, [head.into_bytes().into(), problem.into(), LINE_END]));
        }
        parts.sort_by_key(|(index, _)| *index);
        let end = format!("--{BOUNDARY}--\r\n").into_bytes();
        let parts = parts
            .into_iter()
            .flat_map(|(_, part)| part)
            .chain([end.into()]);
        let media_type = format!("multipart/mixed; boundary={BOUNDARY}");
        Ok((
            [(CONTENT_TYPE, media_type)],
            stream_body(parts, reservations),
        )
            .into_response())
    }
}

/// Returns a body that holds the reservations until its last piece is sent.
fn stream_body(
    pieces: impl Iterator<Item = bytes::Bytes> + Send + 'static,
    reservations: RequestReservations,
) -> Body {
    let pieces = pieces.map(move |piece| {
        let _reservations = &reservations;
        Ok::<_, std::io::Error>(piece)
    });
    Body::from_stream(futures::stream::iter(pieces))
}
