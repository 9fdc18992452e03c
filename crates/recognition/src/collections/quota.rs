//! The number of searches that a key may make in a day.
//!
//! Whoever learns whether a face is similar to an enrolled one has searched, also if the request was an enrollment. The database
//! has the counts, so a limit holds for all servers, after a restart, and for requests at the same moment.

use facescan_audit::AuditError;
use facescan_pipeline::context::RequestContext;
use facescan_store::{SearchCount, Searcher, StoreError, TakenSearches};
use time::OffsetDateTime;

use super::Collections;
use crate::error::RecognitionError;

impl Collections {
    /// Takes searches from the quota of the caller: all of them, or none. The caller is a key, or a tenant if access is not
    /// controlled. A search that fails later stays counted.
    ///
    /// # Errors
    /// [`RecognitionError::TooManySearches`] with the time until the caller may search again, or
    /// [`RecognitionError::Audit`] if the searches cannot be counted.
    pub(crate) async fn take_searches(
        &self,
        context: &RequestContext,
        searches: usize,
    ) -> Result<(), RecognitionError> {
        if self.max_searches_per_day == 0 || searches == 0 {
            return Ok(());
        }
        let now = self.clock.now();
        let taken = self
            .store
            .take_searches(self.searcher(context), searches as u64, now);
        match taken.await.map_err(uncounted)? {
            TakenSearches::Taken => Ok(()),
            TakenSearches::Exceeded(before) => Err(self.exceeded(before, now)),
        }
    }

    /// Checks that the caller has a search left, before work that a search needs.
    ///
    /// # Errors
    /// [`RecognitionError::TooManySearches`] or [`RecognitionError::Audit`].
    pub async fn check_quota(&self, context: &RequestContext) -> Result<(), RecognitionError> {
        if self.max_searches_per_day == 0 {
            return Ok(());
        }
        let now = self.clock.now();
        let counted = self.store.count_searches(self.searcher(context), now);
        let counted = counted.await.map_err(uncounted)?;
        match counted.searches < u64::from(self.max_searches_per_day) {
            true => Ok(()),
            false => Err(self.exceeded(counted, now)),
        }
    }

    fn searcher<'a>(&self, context: &'a RequestContext) -> Searcher<'a> {
        Searcher {
            tenant: &context.principal.tenant,
            key_id: context.principal.key_id.as_deref(),
            limit: self.max_searches_per_day.into(),
        }
    }

    fn exceeded(&self, counted: SearchCount, now: OffsetDateTime) -> RecognitionError {
        let end = match counted.next_end {
            Some(end) if counted.searches >= u64::from(self.max_searches_per_day) => end,
            // Fewer searches are allowed at once.
            _ => now,
        };
        let wait = (end - now).max(time::Duration::SECOND);
        RecognitionError::TooManySearches {
            limit: self.max_searches_per_day,
            retry_after: wait.unsigned_abs(),
        }
    }
}

/// A search that cannot be counted is refused like one that cannot be recorded.
fn uncounted(error: StoreError) -> RecognitionError {
    AuditError(Some(error)).into()
}
