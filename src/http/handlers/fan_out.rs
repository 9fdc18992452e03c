//! Many images in one request: each has its own result, in the order they were sent.

use axum::http::{HeaderName, HeaderValue};
use futures::{StreamExt, stream};

use crate::{
    context::RequestContext,
    http::error::ApiError,
    http::respond::milliseconds,
    ingest::{
        intake::{Intake, Loaded},
        source::ImageInput,
    },
    pipeline::{
        Pipeline,
        answer::{Answer, ErrorEntry, ImageResult, Outcome, Timings},
    },
    telemetry::causes::with_causes,
};
use facescan_inference::operation::Operation;

/// Images of one request that are in the pipeline at a time. How many are worked on is up to the gate.
const IN_FLIGHT: usize = 16;

/// The results of a request's images, and the sums of their times in milliseconds.
pub struct Answered<T> {
    /// One for each image, in order.
    pub results: Vec<ImageResult<T>>,
    queue_ms: f64,
    inference_ms: f64,
}

/// Time that the images waited, for a place, a thread or a session.
const QUEUE_TIME: HeaderName = HeaderName::from_static("x-queue-time");
/// Time that the operations took: letterbox, model and NMS, embedder, enhancement.
const INFERENCE_TIME: HeaderName = HeaderName::from_static("x-inference-time");

impl<T> Answered<T> {
    /// The times as headers.
    pub fn times(&self) -> [(HeaderName, HeaderValue); 2] {
        [
            (QUEUE_TIME, milliseconds(self.queue_ms)),
            (INFERENCE_TIME, milliseconds(self.inference_ms)),
        ]
    }

    /// The answer of an operation in which `operations` took part.
    pub fn into_answer(
        self,
        context: &RequestContext,
        operation: &'static str,
        pipeline: &Pipeline,
        operations: &[Operation],
    ) -> Answer<T> {
        Answer {
            request_id: context.id.to_string(),
            operation,
            models: pipeline.models_used(operations),
            devices: pipeline.devices_of(operations),
            results: self.results,
        }
    }
}

/// Runs `operation` on every image, once its bytes are there. Those that have a URL are fetched side by side.
///
/// # Errors
/// The image's own error when it was the only one; among several it stands in its place.
pub async fn run<T, F>(
    intake: &Intake,
    context: &RequestContext,
    images: Vec<ImageInput>,
    operation: impl Fn(Loaded) -> F,
) -> Result<Answered<T>, ApiError>
where
    F: Future<Output = Result<(T, Timings), ApiError>>,
{
    let alone = images.len() == 1;
    let operation = &operation;
    let mut results = stream::iter(images.into_iter().enumerate())
        .map(|(index, image)| {
            let id = image.id.clone();
            async move {
                let result = async {
                    let mut image = intake.load(image, context.priority).await?;
                    // Fetched bytes have their room until the answer to them is there.
                    let _reservation = image.reservation.take();
                    operation(image).await
                };
                (index, id, result.await)
            }
        })
        // One that is slow to fetch keeps none from being begun.
        .buffer_unordered(IN_FLIGHT);
    let mut answered = Answered {
        results: Vec::new(),
        queue_ms: 0.0,
        inference_ms: 0.0,
    };
    while let Some((index, id, result)) = results.next().await {
        let outcome = match result {
            Ok((result, timings)) => {
                answered.queue_ms += timings.queue;
                answered.inference_ms +=
                    timings.detect + timings.embed + timings.enhance + timings.process;
                Outcome::Ok(result)
            }
            Err(error) if alone => return Err(error),
            Err(error) => {
                let entry = ErrorEntry::from(&error);
                if error.kind().status >= 500 {
                    tracing::error!(
                        index,
                        code = entry.code,
                        error = with_causes(&error),
                        "image failed"
                    );
                }
                Outcome::Error { error: entry }
            }
        };
        let result = ImageResult { index, id, outcome };
        answered.results.push(result);
    }
    answered.results.sort_by_key(|result| result.index);
    let results = answered.results.iter();
    tracing::debug!(
        images = answered.results.len(),
        results = results.filter(|result| result.outcome.is_ok()).count(),
        "batch completed"
    );
    Ok(answered)
}
