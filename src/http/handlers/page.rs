//! Where a page of a list begins, and its size.

use facescan_recognition::{collections::key, error::RecognitionError};
use facescan_store::{Collection, PageRequest};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::http::{
    AppState,
    error::ApiError,
    extract::{api_request::ApiRequest, page_size},
    respond::page::Page,
};

/// The entries on a page, unless the request says it.
pub(super) const DEFAULT_PAGE_SIZE: u32 = 50;
/// The most entries on a page.
pub(super) const MAX_PAGE_SIZE: u32 = 500;

/// The entries to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// The `next` of the previous page.
    after: Option<Uuid>,
    /// The number of entries on the page, 1 to 500.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// Where a page begins, and its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// The entry after which the page begins.
    pub(super) after: Option<Uuid>,
    limit: u32,
}

impl Cursor {
    /// Reads the query of a list that has no filters.
    pub(super) fn read(request: &ApiRequest) -> Result<Self, ApiError> {
        let query: PageQuery = request.query()?;
        Self::new(query.after, query.limit)
    }

    pub(super) fn new(after: Option<Uuid>, limit: Option<u32>) -> Result<Self, ApiError> {
        let limit = page_size(limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
        Ok(Self { after, limit })
    }

    /// Returns what the store is asked for. One more entry shows whether there is another page.
    pub(super) fn wanted(self) -> PageRequest {
        PageRequest {
            after: self.after,
            limit: self.limit + 1,
        }
    }

    /// Checks that the face before a page of enrolled faces is still there. Without its place, the list would begin again.
    pub(super) async fn check_face(
        self,
        state: &AppState,
        collection: &Collection,
    ) -> Result<(), ApiError> {
        let Some(after) = self.after else {
            return Ok(());
        };
        let store = &state.collections.store;
        let found = store.enrollment(key(collection), after).await?;
        found.ok_or(RecognitionError::NoEnrollment(after))?;
        Ok(())
    }

    /// Makes a page of what the store has returned. `id` is where the next page begins.
    pub(super) fn page<R, T>(
        self,
        mut rows: Vec<R>,
        id: impl Fn(&R) -> Uuid,
        entry: impl Fn(R) -> T,
    ) -> Page<T> {
        let has_more = rows.len() > self.limit as usize;
        rows.truncate(self.limit as usize);
        let next = rows.last().filter(|_| has_more).map(id);
        Page {
            results: rows.into_iter().map(entry).collect(),
            next,
        }
    }
}
