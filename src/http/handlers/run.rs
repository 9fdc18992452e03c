//! Runs a plan on the images of a request and writes the response. The image handlers share it.

use axum::{
    http::{HeaderName, HeaderValue},
    response::{AppendHeaders, IntoResponse},
};
use facescan_audit::AuditEvent;
use facescan_config::AuditLevel;
use facescan_pipeline::{
    context::RequestContext,
    core::run::DevicesUsed,
    ingest::source::ImageInput,
    plan::Plan,
    results::{
        ErrorEntry,
        response::{Outcome, Response, TimeSums},
    },
    runner::ImageOutcome,
};
use facescan_telemetry::causes::with_causes;
use serde::Serialize;

use crate::{
    access::rate_limit::Usage,
    http::{
        AppState,
        error::ApiError,
        respond::{
            Accepted, milliseconds,
            negotiated::{FileOr, Negotiated},
        },
    },
};

/// The time that the images waited for a permit, a thread or a session.
const QUEUE_TIME: HeaderName = HeaderName::from_static("x-queue-time");
/// The time of detection, embedding, enhancement and processing.
const INFERENCE_TIME: HeaderName = HeaderName::from_static("x-inference-time");

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

/// Returns the times of a response as headers.
///
/// # Errors
/// [`ApiError::Internal`] if a time cannot be a header.
pub fn times<T>(response: &Response<T>) -> Result<[(HeaderName, HeaderValue); 2], ApiError> {
    Ok([
        (QUEUE_TIME, milliseconds(response.times.queue)?),
        (INFERENCE_TIME, milliseconds(response.times.inference)?),
    ])
}

/// The thread that serializes a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOn {
    /// The thread of the handler. For a small response this is faster than another thread.
    ThisThread,
    /// Another thread. A large response would delay the other requests of the handler's thread.
    OwnThread,
}

impl WriteOn {
    /// The maximum number of values that the thread of a handler serializes: 16 vectors of 512 values.
    const MAX_VALUES: usize = 16 * 512;

    /// The values that an entry counts at least, because its other fields also take time.
    const MIN_VALUES_OF_ENTRY: usize = 512;

    /// Returns the thread for a response with `entries` faces or images, each with a vector of `dim` values or with none.
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

    /// Runs the plan on the images of the request, and converts each result.
    ///
    /// # Errors
    /// Returns an error if the plan cannot run, or if the only image fails. Among several images, a failed image has an
    /// error as its result.
    pub async fn response<T>(
        &self,
        images: Vec<ImageInput>,
        mut convert: impl FnMut(P::Output) -> T,
    ) -> Result<Response<T>, ApiError> {
        let operation = self.plan.operation().name();
        let outcomes = self.outcomes(images, operation).await?;
        let is_single = outcomes.len() == 1;
        let has_timings = self.plan.run_options().timings;
        let mut response = Response {
            request_id: self.context.id.to_string(),
            operation,
            models: self.state.pipeline.models.used(&self.plan.tasks()),
            devices: DevicesUsed::new(),
            results: Vec::with_capacity(outcomes.len()),
            times: TimeSums::default(),
        };
        for ImageOutcome {
            index, id, output, ..
        } in outcomes
        {
            let output = match output.map_err(ApiError::from) {
                Ok(output) => {
                    response.times.add(&output.run.timings);
                    Ok(output.map(&mut convert))
                }
                Err(error) if is_single => return Err(error),
                Err(error) => Err(log_and_convert(index, &error)),
            };
            let outcome = Outcome::new(index, id, output, has_timings);
            response.results.push(outcome);
        }
        response.share_devices();
        let succeeded = response.succeeded().count();
        tracing::debug!(images = response.results.len(), succeeded, "images done");
        Ok(response)
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

    /// Writes the response, with its times in headers.
    ///
    /// # Errors
    /// [`ApiError::Internal`] if it cannot be serialized.
    pub async fn write<T: Serialize + Send + 'static>(
        &self,
        accepted: Accepted,
        response: Response<T>,
        write_on: WriteOn,
    ) -> Result<Negotiated<Response<T>>, ApiError> {
        let times = times(&response)?;
        let written = match write_on {
            WriteOn::ThisThread => Negotiated::small(accepted, &response)?,
            WriteOn::OwnThread => Negotiated::large(self.context, accepted, response).await?,
        };
        Ok(written.with_headers(times))
    }

    /// Writes the result of the only image as a file, if `file` is there and the image has a result. Otherwise writes the
    /// response.
    ///
    /// # Errors
    /// The error of `file` or of [`write`](Self::write).
    pub async fn write_file_or_body<T: Serialize + Send + 'static>(
        &self,
        accepted: Accepted,
        response: Response<T>,
        file: Option<impl FnOnce(&T) -> Result<axum::response::Response, ApiError>>,
    ) -> Result<FileOr<Response<T>>, ApiError> {
        if let (Some(file), Some(success)) = (file, response.succeeded().next()) {
            let file = file(&success.result)?;
            let headers = AppendHeaders(times(&response)?);
            return Ok(FileOr::File((headers, file).into_response()));
        }
        let written = self.write(accepted, response, WriteOn::OwnThread).await?;
        Ok(FileOr::Body(written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_responses_are_written_on_another_thread() {
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
