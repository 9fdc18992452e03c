//! All items of a batch as a stream of lines.

use std::io;

use axum::{
    body::Body,
    http::{
        HeaderMap,
        header::{CONTENT_TYPE, VARY},
    },
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use facescan_batches::{operation, results::StoredItems, watches::HeldStream};
use facescan_config::scope::Scope;
use facescan_pipeline::context::RequestContext;
use facescan_store::Batch;
use futures::stream;

use super::{items::ItemsQuery, stream_key::StreamKey};
use crate::http::{
    AppState, error::ApiError, extract::stored_request::StoredRequest, respond::on_own_thread,
};

pub(super) const NDJSON: &str = "application/x-ndjson";

/// The number of items that are read at a time.
const PAGE_SIZE: u32 = 250;

/// A stream of items. It reads a page when its client has taken the one before.
pub struct Export {
    state: AppState,
    context: RequestContext,
    key: StreamKey,
    batch: Batch,
    /// The items that are left. `None` after the last page.
    query: Option<ItemsQuery>,
    _held: HeldStream,
}

impl Export {
    /// Begins a stream of the items of a batch that `query` asks for.
    ///
    /// # Errors
    /// [`TooManyStreams`](facescan_batches::error::BatchError::TooManyStreams) if the tenant has too many streams.
    pub(super) fn new(
        request: &StoredRequest,
        headers: &HeaderMap,
        batch: &Batch,
        query: ItemsQuery,
    ) -> Result<Self, ApiError> {
        let batches = &request.state.batches;
        let scopes: &[Scope] = if operation::searches(&batch.operation) {
            &[Scope::Batch, Scope::Search]
        } else {
            &[Scope::Batch]
        };
        Ok(Self {
            state: AppState::clone(&request.state),
            context: request.context.clone(),
            key: StreamKey::new(request, headers, scopes),
            batch: batch.clone(),
            query: Some(query),
            _held: batches.hold_stream(&request.context.principal.tenant)?,
        })
    }

    /// Answers with the stream. An error ends it early, so that the caller does not take it for complete.
    pub(super) fn respond(self) -> Response {
        let pages = stream::try_unfold(self, |mut export| async {
            let lines = export.next().await?;
            Ok::<_, io::Error>(lines.map(|lines| (lines, export)))
        });
        let headers = [(CONTENT_TYPE, NDJSON), (VARY, "accept")];
        (headers, Body::from_stream(pages)).into_response()
    }

    /// Returns the lines of the next page.
    async fn next(&mut self) -> Result<Option<Bytes>, io::Error> {
        let Some(query) = self.query.take() else {
            return Ok(None);
        };
        if !self.key.is_allowed().await {
            let reason = "the key of the stream is no longer valid";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let admission = &self.state.admission;
        let turn = admission
            .large_response(&self.context.principal.tenant)
            .await;
        let stored = query.load(&self.state, &self.batch, PAGE_SIZE).await;
        let written = on_own_thread(move || {
            let _turn = turn;
            lines(stored.map_err(io::Error::other)?)
        });
        let (lines, next) = written.await.map_err(io::Error::other)??;
        self.query = next.map(|next| query.after(next));
        Ok(Some(lines))
    }
}

/// Writes the items of a page, one a line. Returns the `next` of the page too.
fn lines(stored: StoredItems) -> Result<(Bytes, Option<u64>), io::Error> {
    let page = stored.into_page();
    let mut text = Vec::new();
    for item in page.items {
        serde_json::to_writer(&mut text, &item)?;
        text.push(b'\n');
    }
    Ok((text.into(), page.next))
}
