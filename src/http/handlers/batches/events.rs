//! `GET /batches/{id}/events`: server-sent events about the progress of a batch.

use std::{convert::Infallible, time::Duration};

use axum::{
    http::{HeaderMap, HeaderName},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use facescan_store::{Batch, BatchState};
use futures::stream;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::batches::answer::{BatchAnswer, CountsAnswer};
use crate::http::{
    AppState, error::ApiError, extract::stored_request::StoredRequest,
    openapi::failures::BatchFailures,
};

/// The time between two looks at the batch.
const PERIOD: Duration = Duration::from_millis(500);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An event of the stream.
#[derive(Debug, ToSchema)]
#[schema(as = BatchEvent)]
#[expect(dead_code, reason = "only describes the events")]
pub struct EventAnswer {
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
    counts: CountsAnswer,
    /// The items that were finished in each second so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_per_s: Option<f64>,
    /// The seconds that the rest takes at this rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_s: Option<f64>,
}

/// A stream of events between two looks.
struct Watch {
    state: AppState,
    tenant: String,
    id: Uuid,
    last: Option<String>,
    is_ended: bool,
    is_first: bool,
}

/// Streams the progress of a batch as server-sent events.
///
/// Each event has the name `progress`, and its data has the state, the counts and the rate. The stream ends with the batch.
/// A client that connects again with `Last-Event-ID` gets the next change.
#[utoipa::path(
    get, path = "/batches/{id}/events", operation_id = "watch_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(
        ("id" = Uuid, Path, description = "The id of the batch"),
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that the client has"),
    ),
    responses(
        (status = 200, description = "A stream of events", body = EventAnswer, content_type = "text/event-stream"),
        BatchFailures,
    )
)]
pub async fn stream(headers: HeaderMap, request: StoredRequest) -> Result<Response, ApiError> {
    let batches = &request.state.batches;
    // An unknown batch is an error and not an empty stream.
    batches.batch(request.tenant(), request.id).await?;
    let last = headers.get(&LAST_EVENT_ID);
    let watch = Watch {
        state: AppState::clone(&request.state),
        tenant: request.tenant().to_owned(),
        id: request.id,
        last: last.and_then(|id| id.to_str().ok()).map(str::to_owned),
        is_ended: false,
        is_first: true,
    };
    let events = stream::unfold(watch, |mut watch| async {
        let event = watch.next().await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    Ok(Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response())
}

impl Watch {
    /// Waits for the next change. Returns `None` after the end of the batch.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.is_ended || self.state.lifecycle.is_stopping() {
                return None;
            }
            if !std::mem::take(&mut self.is_first) {
                tokio::time::sleep(PERIOD).await;
            }
            let store = &self.state.batches.store;
            let batch = match store.batch(&self.tenant, self.id).await {
                Ok(Some(batch)) => batch,
                Ok(None) => return None,
                // The client keeps its connection while the database is away.
                Err(_) => continue,
            };
            self.is_ended = matches!(batch.state, BatchState::Done | BatchState::Cancelled)
                && batch.counts.running == 0;
            let id = event_id(&batch);
            if self.last.as_ref() == Some(&id) {
                continue;
            }
            self.last = Some(id.clone());
            let answer = BatchAnswer::new(batch, self.state.batches.clock().now());
            let data = EventData {
                state: answer.state,
                counts: answer.counts,
                rate_per_s: answer.rate_per_s,
                eta_s: answer.eta_s,
            };
            let event = Event::default().event("progress").id(id);
            return event.json_data(data).ok();
        }
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
