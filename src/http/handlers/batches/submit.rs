//! `POST /batches` and `POST /batches/{id}/items`.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName},
};
use facescan_audit::AuditEvent;
use facescan_batches::submission::{Receipt, Submission, Submitted};

use super::check_may_search;
use crate::http::{
    AppState,
    error::ApiError,
    extract::{
        api_request::ApiRequest,
        batch_body::{BatchBody, Entries},
        stored_request::StoredRequest,
    },
    openapi::{
        bodies::{BatchRequestBody, ItemsBody},
        failures::SubmissionFailures,
    },
    respond::negotiated::{DoneOrQueued, Queued},
};

/// The header that identifies a request if it is sent again.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The maximum length of an idempotency key, in bytes.
const MAX_KEY_BYTES: usize = 255;

/// Creates a batch of images that are processed in the background.
///
/// An entry that is not valid is refused alone: `refused` has its index and a stable code. With `Idempotency-Key`, the same
/// request can be sent again: it finds its batch, with the status 200, and an interrupted one continues. NDJSON
/// (`application/x-ndjson`) has the description of the batch in the first line and one item in each further line, without a
/// limit on their number.
#[utoipa::path(
    post, path = "/batches", operation_id = "create_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(
        ("operation" = Option<facescan_pipeline::operation::BatchOperation>, Query, description = "The operation, if the body does not name it"),
        ("idempotency-key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$", description = "Identifies the request if it is sent again"),
    ),
    request_body = BatchRequestBody,
    responses(SubmissionFailures)
)]
pub async fn create(
    request: ApiRequest,
    headers: HeaderMap,
    body: Request,
) -> Result<DoneOrQueued<Receipt>, ApiError> {
    let key = idempotency_key(&headers)?;
    let has_key = key.is_some();
    let BatchBody {
        head,
        entries,
        // Held until all entries are read.
        reservation: _reservation,
    } = BatchBody::read(body, &request.state, true).await?;
    let head = head.into_head(key)?;
    check_may_search(&request.context, head.operation.name())?;
    let batches = &request.state.batches;
    let submission = batches.submit(&request.context, head).await?;
    let event = AuditEvent::change("submit_batch", submission.batch().id);
    request.record(event).await?;
    let submitted = submit(&request.state, submission, entries, has_key).await?;
    let body = request.small(&submitted.receipt)?;
    Ok(if submitted.is_repeated {
        DoneOrQueued::Done(body)
    } else {
        DoneOrQueued::Queued(body)
    })
}

/// Adds items to an open batch.
#[utoipa::path(
    post, path = "/batches/{id}/items", operation_id = "add_batch_items", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    request_body = ItemsBody,
    responses(SubmissionFailures)
)]
pub async fn add_items(request: StoredRequest, body: Request) -> Result<Queued<Receipt>, ApiError> {
    let batches = &request.state.batches;
    let submission = batches.append(&request.context, request.id).await?;
    check_may_search(&request.context, &submission.batch().operation)?;
    let event = AuditEvent::change("add_batch_items", request.id);
    request.record(event).await?;
    let BatchBody {
        entries,
        // Held until all entries are read.
        reservation: _reservation,
        ..
    } = BatchBody::read(body, &request.state, false).await?;
    let submitted = submit(&request.state, submission, entries, true).await?;
    request.small(&submitted.receipt).map(Queued)
}

/// Reads all entries. `can_continue` is whether the caller can find a batch that is interrupted.
async fn submit(
    state: &AppState,
    mut submission: Submission<'_>,
    mut entries: Entries,
    can_continue: bool,
) -> Result<Submitted, ApiError> {
    loop {
        let step = async {
            let read = entries.next(state).await?;
            let is_end = read.is_empty();
            submission.push(read).await?;
            if is_end && submission.lacks_items() {
                return Err(ApiError::missing_image(
                    "there are no items; send at least one, or open=true to add them to the batch later",
                ));
            }
            let submitted = match is_end {
                true => Some(submission.finish().await?),
                false => None,
            };
            Ok::<_, ApiError>(submitted)
        };
        match step.await {
            Ok(None) => {}
            Ok(Some(submitted)) => return Ok(submitted),
            Err(error) => {
                submission.abandon(can_continue).await;
                return Err(error);
            }
        }
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(&IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let key = value.to_str().ok();
    let is_visible = |key: &&str| key.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let key = key.filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len()));
    let key = key.filter(is_visible);
    match key {
        Some(key) => Ok(Some(key.to_owned())),
        None => Err(ApiError::invalid_option(
            IDEMPOTENCY_KEY.as_str(),
            format!("must have 1 to {MAX_KEY_BYTES} visible characters"),
        )),
    }
}
