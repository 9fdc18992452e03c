//! `GET /batches/{id}/events`: server-sent events about the progress of a batch.

use std::convert::Infallible;

use axum::{
    http::{HeaderMap, HeaderName, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use facescan_batches::{
    response::{BatchResponse, CountsResponse},
    watches::{BatchWatch, PERIOD, is_over},
};
use facescan_config::scope::Scope;
use facescan_store::Batch;
use futures::stream;
use serde::Serialize;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use utoipa::ToSchema;

use super::stream_key::StreamKey;
use crate::http::{
    AppState,
    error::ApiError,
    extract::stored_request::StoredRequest,
    openapi::{
        documented::{Description, Documented},
        failures::BatchFailures,
    },
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An event of the stream.
#[derive(Debug, ToSchema)]
#[schema(as = BatchEvent)]
#[expect(dead_code, reason = "only describes the events")]
pub struct EventResponse {
    /// The name, `progress`.
    event: String,
    /// A text that changes with the state and with each count.
    id: String,
    /// JSON with `state`, `counts`, `rate_per_s` and `eta_s`, as a batch has them.
    data: String,
}

/// The data of an event.
#[derive(Debug, Serialize)]
struct EventData {
    /// The state of the batch.
    state: &'static str,
    /// The number of items in each state.
    counts: CountsResponse,
    /// The items that were finished in each second so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_per_s: Option<f64>,
    /// The seconds that the rest takes at this rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_s: Option<f64>,
}

/// A stream of events between two changes.
struct EventStream {
    state: AppState,
    watch: BatchWatch,
    key: StreamKey,
    checks: Interval,
    last: Option<String>,
}

/// A stream of server-sent events.
pub struct EventsResponse(Response);

impl IntoResponse for EventsResponse {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Documented for EventsResponse {
    fn describe(description: &mut Description) {
        description.response(StatusCode::OK, "A stream of events");
        description.more::<EventResponse>(StatusCode::OK, &["text/event-stream"]);
    }
}

/// Streams the progress of a batch as server-sent events.
///
/// Each event has the name `progress`, and its data has the state, the counts and the rate. The stream ends with the batch, and
/// when the key is revoked or expires. A client that connects again with `Last-Event-ID` gets the next change.
#[utoipa::path(
    get, path = "/batches/{id}/events", operation_id = "watch_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(
        ("id" = Uuid, Path, description = "The id of the batch"),
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that the client has"),
    ),
    responses(BatchFailures)
)]
pub async fn stream(
    headers: HeaderMap,
    request: StoredRequest,
) -> Result<EventsResponse, ApiError> {
    let batches = &request.state.batches;
    let tenant = &request.context.principal.tenant;
    let watch = batches.watch(tenant, request.id).await?;
    let last = headers.get(&LAST_EVENT_ID);
    let mut checks = interval_at(Instant::now() + PERIOD, PERIOD);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stream = EventStream {
        state: AppState::clone(&request.state),
        watch,
        key: StreamKey::new(&request, &headers, &[Scope::Batch]),
        checks,
        last: last.and_then(|id| id.to_str().ok()).map(str::to_owned),
    };
    let events = stream::unfold(stream, |mut stream| async {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    let events = Sse::new(events).keep_alive(KeepAlive::default());
    Ok(EventsResponse(events.into_response()))
}

impl EventStream {
    /// Waits for the next change. Returns `None` after the end of the batch, or if the caller may not watch it any more.
    async fn next(&mut self) -> Option<Event> {
        while !self.state.lifecycle.is_stopping() {
            let batch = self.watch.newest()?;
            let id = event_id(&batch);
            if self.last.as_ref() != Some(&id) {
                self.last = Some(id.clone());
                return self.event(id, &batch);
            }
            if is_over(&batch) {
                return None;
            }
            let goes_on = tokio::select! {
                biased;
                _ = self.checks.tick() => self.key.is_allowed().await,
                has_changed = self.watch.changed() => has_changed,
            };
            if !goes_on {
                return None;
            }
        }
        None
    }

    fn event(&self, id: String, batch: &Batch) -> Option<Event> {
        let now = self.state.batches.clock().now();
        let response = BatchResponse::new(batch.clone(), now);
        let data = EventData {
            state: response.state,
            counts: response.counts,
            rate_per_s: response.rate_per_s,
            eta_s: response.eta_s,
        };
        let event = Event::default().event("progress").id(id);
        event.json_data(data).ok()
    }
}

/// Returns a text that changes with the state and with each count.
fn event_id(batch: &Batch) -> String {
    let counts = batch.counts;
    format!(
        "{}-{}-{}-{}-{}-{}-{}",
        batch.state.name(),
        counts.queued,
        counts.running,
        counts.ok,
        counts.error,
        counts.dead,
        counts.cancelled
    )
}
