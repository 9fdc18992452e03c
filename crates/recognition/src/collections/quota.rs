//! The number of searches that a key may make in a day.
//!
//! Whoever learns whether a face is similar to an enrolled one has searched, also if the request was an enrollment. The database
//! has the counts, so a limit holds for all servers, after a restart, and for requests at the same moment.

use facescan_audit::AuditError;
use facescan_pipeline::context::RequestContext;
use facescan_store::{SearchCount, Searcher, Store, StoreError, TakenSearches};
use time::OffsetDateTime;

use crate::error::RecognitionError;

/// Limits the searches of each key, or of each tenant if access is not controlled. Cheap to clone.
#[derive(Clone)]
pub struct SearchQuota {
    /// The counts of all callers.
    pub store: Store,
    /// The most searches in 24 hours. 0 is no limit.
    pub per_day: u32,
}

impl SearchQuota {
    /// Takes searches from the quota of the caller: all of them, or none. A search that fails later stays counted.
    ///
    /// # Errors
    /// [`RecognitionError::TooManySearches`] with the time until the caller may search again, or
    /// [`RecognitionError::Audit`] if the searches cannot be counted.
    pub async fn take(
        &self,
        context: &RequestContext,
        searches: usize,
        now: OffsetDateTime,
    ) -> Result<(), RecognitionError> {
        if self.per_day == 0 || searches == 0 {
            return Ok(());
        }
        let searcher = self.searcher(context);
        let taken = self.store.take_searches(searcher, searches as u64, now);
        match taken.await.map_err(uncounted)? {
            TakenSearches::Taken => Ok(()),
            TakenSearches::Exceeded(before) => Err(self.exceeded(before, now)),
        }
    }

    /// Checks that the caller has a search left, before work that a search needs.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub async fn check(
        &self,
        context: &RequestContext,
        now: OffsetDateTime,
    ) -> Result<(), RecognitionError> {
        if self.per_day == 0 {
            return Ok(());
        }
        let counted = self.store.count_searches(self.searcher(context), now);
        let counted = counted.await.map_err(uncounted)?;
        match counted.searches < u64::from(self.per_day) {
            true => Ok(()),
            false => Err(self.exceeded(counted, now)),
        }
    }

    fn searcher<'a>(&self, context: &'a RequestContext) -> Searcher<'a> {
        Searcher {
            tenant: &context.principal.tenant,
            key_id: context.principal.key_id.as_deref(),
            limit: self.per_day.into(),
        }
    }

    fn exceeded(&self, counted: SearchCount, now: OffsetDateTime) -> RecognitionError {
        let end = match counted.next_end {
            Some(end) if counted.searches >= u64::from(self.per_day) => end,
            // Fewer searches are allowed at once.
            _ => now,
        };
        let wait = (end - now).max(time::Duration::SECOND);
        RecognitionError::TooManySearches {
            limit: self.per_day,
            retry_after: wait.unsigned_abs(),
        }
    }
}

/// A search that cannot be counted is refused like one that cannot be recorded.
fn uncounted(error: StoreError) -> RecognitionError {
    AuditError(Some(error)).into()
}
