//! Pages of the lists below `/collections`.

use facescan_store::{Collection, PageRequest};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::{
    http::{
        AppState,
        error::ApiError,
        extract::{page_size, read_query},
    },
    recognition::{collections::key, error::RecognitionError},
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

/// A page whose size is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    after: Option<Uuid>,
    limit: u32,
}

impl Page {
    /// Reads the query of a list that has no filters.
    pub(super) fn read(query: Option<&str>) -> Result<Self, ApiError> {
        let query: PageQuery = read_query(query.unwrap_or_default())?;
        Self::new(query.after, query.limit)
    }

    pub(super) fn new(after: Option<Uuid>, limit: Option<u32>) -> Result<Self, ApiError> {
        let limit = page_size(limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
        Ok(Self { after, limit })
    }

    /// Returns the entry after which the page begins.
    pub(super) fn after(self) -> Option<Uuid> {
        self.after
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
        let found = store.enrolment(key(collection), after).await?;
        found.ok_or(RecognitionError::NoEnrolment(after))?;
        Ok(())
    }

    /// Cuts a list to the page. Returns the id of the last entry if there are more.
    pub(super) fn cut<T>(self, entries: &mut Vec<T>, id: impl Fn(&T) -> Uuid) -> Option<Uuid> {
        let has_more = entries.len() > self.limit as usize;
        entries.truncate(self.limit as usize);
        entries.last().filter(|_| has_more).map(id)
    }
}
