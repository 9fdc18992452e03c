//! Runs a plan on the images of a request and writes the answer. The image handlers share it.
//!
//! A result has these forms on its way: `RunOutput` (one image, with its timings) → `ImageOutcome` (with index and id) →
//! `ImageResult` (an entry of the response) → [`RequestResults`] (all images) → `Answer` (the body).

use axum::{
    http::{HeaderName, HeaderValue},
    response::{AppendHeaders, IntoResponse, Response},
};
use facescan_audit::AuditEvent;
use facescan_config::AuditLevel;
use facescan_pipeline::{
    context::RequestContext,
    core::run::{DevicesUsed, ImageRun},
    ingest::source::ImageInput,
    plan::Plan,
    results::{Answer, ErrorEntry, ImageResult, Outcome, take_common_devices},
    runner::ImageOutcome,
};
use facescan_telemetry::causes::with_causes;
use serde::Serialize;

use crate::{
    access::rate_limit::Usage,
    http::{
        AppState,
        error::ApiError,
        respond::{Accepted, milliseconds, respond, respond_small},
    },
};

/// The time that the images waited for a permit, a thread or a session.
const QUEUE_TIME: HeaderName = HeaderName::from_static("x-queue-time");
/// The time of detection, embedding, enhancement and processing.
const INFERENCE_TIME: HeaderName = HeaderName::from_static("x-inference-time");

/// The results of a request's images.
pub struct RequestResults<T> {
    /// One result for each image, in the order of the request.
    pub entries: Vec<ImageResult<T>>,
    /// The devices that most results share. A result that other devices made has its own `devices`.
    pub devices: DevicesUsed,
    /// The sum of the times that the images waited, in milliseconds.
    queue_ms: f64,
    /// The sum of the times of [`Timings::inference`](facescan_pipeline::core::run::Timings::inference), in milliseconds.
    inference_ms: f64,
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

impl<T> RequestResults<T> {
    fn add_times(&mut self, run: &ImageRun) {
        self.queue_ms += run.timings.queue;
        self.inference_ms += run.timings.inference();
    }

    /// Returns the times as headers.
    ///
    /// # Errors
    /// [`ApiError::Internal`] if a time cannot be a header.
    pub fn times(&self) -> Result<[(HeaderName, HeaderValue); 2], ApiError> {
        Ok([
            (QUEUE_TIME, milliseconds(self.queue_ms)?),
            (INFERENCE_TIME, milliseconds(self.inference_ms)?),
        ])
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

    /// Converts each result with `convert`.
    pub fn map<U>(self, convert: impl Fn(T) -> U) -> RequestResults<U> {
        RequestResults {
            entries: self
                .entries
                .into_iter()
                .map(|result| result.map(&convert))
                .collect(),
            devices: self.devices,
            queue_ms: self.queue_ms,
            inference_ms: self.inference_ms,
        }
    }
}

/// The thread that serializes an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOn {
    /// The thread of the handler. For a small answer this is faster than another thread.
    ThisThread,
    /// Another thread. A large answer would delay the other requests of the handler's thread.
    OwnThread,
}

impl WriteOn {
    /// The maximum number of values that the thread of a handler serializes: 16 vectors of 512 values.
    const MAX_VALUES: usize = 16 * 512;

    /// The values that an entry counts at least, because its other fields also take time.
    const MIN_VALUES_OF_ENTRY: usize = 512;

    /// Returns the thread for an answer with `entries` faces or images, each with a vector of `dim` values or with none.
    pub fn for_vectors(entries: usize, dim: usize) -> Self {
        if entries.saturating_mul(dim.max(Self::MIN_VALUES_OF_ENTRY)) <= Self::MAX_VALUES {
            Self::ThisThread
        } else {
            Self::OwnThread
        }
    }
}

/// A plan, and the request that it runs for.
pub struct PlanRun<'a, P> {
    /// The application.
    pub state: &'a AppState,
    /// The context of the request.
    pub context: &'a RequestContext,
    /// The options of the request, with every default filled in.
    pub plan: P,
}

impl<P: Plan> PlanRun<'_, P> {
    /// Runs the plan on the images of the request. `action` is the name of the request in the audit trail.
    ///
    /// # Errors
    /// Returns an error if the plan cannot run, or [`ApiError::Audit`]. The error of an image is in its outcome.
    pub async fn outcomes(
        &self,
        images: Vec<ImageInput>,
        action: &'static str,
    ) -> Result<Vec<ImageOutcome<P::Output>>, ApiError> {
        let runner = &self.state.runner;
        let outcomes = runner.run_all(self.context, images, &self.plan).await?;
        self.account(action, &outcomes).await?;
        Ok(outcomes)
    }

    /// Runs the plan on the images of the request.
    ///
    /// # Errors
    /// Returns an error if the plan cannot run, or if the only image fails. Among several images, a failed image has an
    /// error as its result.
    pub async fn results(
        &self,
        images: Vec<ImageInput>,
    ) -> Result<RequestResults<P::Output>, ApiError> {
        let is_single = images.len() == 1;
        let reports_timings = self.plan.run_options().timings;
        let mut results = RequestResults {
            entries: Vec::with_capacity(images.len()),
            devices: DevicesUsed::new(),
            queue_ms: 0.0,
            inference_ms: 0.0,
        };
        let runner = &self.state.runner;
        let outcomes = runner.run_all(self.context, images, &self.plan).await?;
        self.account(self.plan.name(), &outcomes).await?;
        for outcome in outcomes {
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

    /// Deducts the decoded pixels from the rate limits of the caller, and records which images were processed, before
    /// anything is returned.
    ///
    /// # Errors
    /// [`ApiError::Audit`] if the audit trail cannot be written.
    async fn account(
        &self,
        action: &'static str,
        outcomes: &[ImageOutcome<P::Output>],
    ) -> Result<(), ApiError> {
        let succeeded = outcomes
            .iter()
            .filter_map(|outcome| outcome.output.as_ref().ok());
        let pixels = succeeded.map(|output| output.run.pixels).sum();
        let limits = &self.state.rate_limits;
        limits.charge(&self.context.principal, Usage::Pixels(pixels));
        let audit = &self.state.audit;
        if !audit.records(AuditLevel::All) {
            return Ok(());
        }
        let hashes: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.hash).collect();
        let others = outcomes.len() - hashes.len();
        let event = AuditEvent::images(action, &hashes, others);
        Ok(audit.record(self.context, event).await?)
    }

    /// Writes a structured answer.
    ///
    /// # Errors
    /// [`ApiError::Internal`] if the answer cannot be serialized.
    pub async fn respond<T: Serialize + Send + 'static>(
        &self,
        accepted: Accepted,
        results: RequestResults<T>,
        write_on: WriteOn,
    ) -> Result<Response, ApiError> {
        let pipeline = &self.state.pipeline;
        let times = results.times()?;
        let answer = Answer {
            request_id: self.context.id.to_string(),
            operation: self.plan.name(),
            models: pipeline.models.used(&self.plan.tasks()),
            devices: results.devices,
            results: results.entries,
        };
        let response = match write_on {
            WriteOn::ThisThread => respond_small(accepted, &answer)?,
            WriteOn::OwnThread => respond(self.context, accepted, answer).await?,
        };
        Ok((AppendHeaders(times), response).into_response())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_answers_are_written_on_another_thread() {
        for (entries, dim, expected) in [
            (0, 512, WriteOn::ThisThread),
            (16, 0, WriteOn::ThisThread),
            (16, 512, WriteOn::ThisThread),
            (17, 128, WriteOn::OwnThread),
            (8, 1024, WriteOn::ThisThread),
            (9, 1024, WriteOn::OwnThread),
            (usize::MAX, 512, WriteOn::OwnThread),
        ] {
            assert_eq!(
                WriteOn::for_vectors(entries, dim),
                expected,
                "{entries} × {dim}"
            );
        }
    }
}
