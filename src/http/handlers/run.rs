//! Runs an operation on the images of a request and writes the answer. The image handlers share it.
//!
//! A result has these forms on its way: `RunOutput` (one image, with its timings) → `ImageOutcome` (with index and id) →
//! `ImageResult` (an entry of the answer) → [`ImageResults`] (all images) → `Answer` (the body).

use axum::{
    http::{HeaderName, HeaderValue},
    response::{AppendHeaders, IntoResponse, Response},
};
use serde::Serialize;

use crate::{
    context::RequestContext,
    http::{
        AppState,
        error::ApiError,
        respond::{Accepted, milliseconds, respond, respond_small},
    },
    ingest::source::ImageInput,
    pipeline::{
        answer::{Answer, ErrorEntry, ImageResult, Outcome, take_common_devices},
        fan_out::ImageOperation,
        run::{DevicesUsed, ImageRun},
    },
    telemetry::causes::with_causes,
};
use facescan_inference::operation::Operation;

/// The time that the images waited for a permit, a thread or a session.
const QUEUE_TIME: HeaderName = HeaderName::from_static("x-queue-time");
/// The time of detection, embedding, enhancement and processing.
const INFERENCE_TIME: HeaderName = HeaderName::from_static("x-inference-time");

/// The results of a request's images, and the sums of their times in milliseconds.
pub struct ImageResults<T> {
    /// One result for each image, in the order of the request.
    pub entries: Vec<ImageResult<T>>,
    /// The devices that most results share. A result that other devices made has its own `devices`.
    pub devices: DevicesUsed,
    queue_ms: f64,
    inference_ms: f64,
}

/// Runs an operation on the images of a request.
///
/// # Errors
/// Returns an error if the operation cannot run, or if the only image fails. Among several images, a failed image has an
/// error as its result.
pub async fn run_images<P: ImageOperation>(
    state: &AppState,
    context: &RequestContext,
    images: Vec<ImageInput>,
    operation: &P,
) -> Result<ImageResults<P::Output>, ApiError> {
    operation.check(&state.pipeline)?;
    let is_single = images.len() == 1;
    let reports_timings = operation.run_options().timings;
    let mut results = ImageResults {
        entries: Vec::with_capacity(images.len()),
        devices: DevicesUsed::new(),
        queue_ms: 0.0,
        inference_ms: 0.0,
    };
    for outcome in state.fan_out.run_all(context, images, operation).await {
        let index = outcome.index;
        let output = match outcome.output.map_err(ApiError::from) {
            Ok(output) => Ok(output),
            Err(error) if is_single => return Err(error),
            Err(error) => Err(log_and_convert(index, &error)),
        };
        if let Ok(output) = &output {
            results.add_times(&output.run);
        }
        let result = ImageResult::new(index, outcome.id, output, reports_timings);
        results.entries.push(result);
    }
    results.devices = take_common_devices(&mut results.entries);
    let succeeded = results.succeeded().count();
    tracing::debug!(images = results.entries.len(), succeeded, "images done");
    Ok(results)
}

/// Converts an image's error to its entry. Logs a fault of the server, because the entry hides its cause.
fn log_and_convert(index: usize, error: &ApiError) -> ErrorEntry {
    let entry = ErrorEntry::from(error);
    if error.kind().status >= 500 {
        tracing::error!(
            index,
            code = entry.code,
            error = with_causes(error),
            "image failed"
        );
    }
    entry
}

impl<T> ImageResults<T> {
    fn add_times(&mut self, run: &ImageRun) {
        let timings = run.timings;
        self.queue_ms += timings.queue;
        self.inference_ms += timings.detect + timings.embed + timings.enhance + timings.process;
    }

    /// Returns the times as headers.
    pub fn times(&self) -> [(HeaderName, HeaderValue); 2] {
        [
            (QUEUE_TIME, milliseconds(self.queue_ms)),
            (INFERENCE_TIME, milliseconds(self.inference_ms)),
        ]
    }

    /// Iterates over the results of the images that succeeded.
    pub fn succeeded(&self) -> impl Iterator<Item = &T> {
        self.entries
            .iter()
            .filter_map(|result| match &result.outcome {
                Outcome::Ok(result) => Some(result),
                Outcome::Error { .. } => None,
            })
    }

    /// Converts each result with `form`.
    pub fn map<U>(self, form: impl Fn(T) -> U) -> ImageResults<U> {
        ImageResults {
            entries: self
                .entries
                .into_iter()
                .map(|result| result.map(&form))
                .collect(),
            devices: self.devices,
            queue_ms: self.queue_ms,
            inference_ms: self.inference_ms,
        }
    }
}

/// Writes a structured answer.
pub struct Responder<'a> {
    /// The application.
    pub state: &'a AppState,
    /// The context of the request.
    pub context: &'a RequestContext,
    /// JSON or msgpack.
    pub accepted: Accepted,
    /// The name of the operation in the answer.
    pub operation: &'static str,
    /// The operations that ran. The answer names their models.
    pub operations: Vec<Operation>,
}

impl Responder<'_> {
    /// Writes the answer on this thread if it is small, and on the CPU pool otherwise.
    ///
    /// # Errors
    /// [`ApiError::Internal`] if the answer cannot be serialised.
    pub async fn respond<T: Serialize + Send + 'static>(
        self,
        results: ImageResults<T>,
        is_small: bool,
    ) -> Result<Response, ApiError> {
        let pipeline = &self.state.pipeline;
        let times = results.times();
        let answer = Answer {
            request_id: self.context.id.to_string(),
            operation: self.operation,
            models: pipeline.models.used(&self.operations),
            devices: results.devices,
            results: results.entries,
        };
        let response = if is_small {
            respond_small(self.accepted, &answer)?
        } else {
            respond(self.accepted, &pipeline.pool, answer).await?
        };
        Ok((AppendHeaders(times), response).into_response())
    }
}
