//! The number of searches that a key may make in a day.
//!
//! The audit trail has every search, so it also has the number. It holds for all servers of a database, and after a restart.

use std::{sync::Arc, time::Duration};

use facescan_store::AuditStore;
use time::OffsetDateTime;

use crate::{audit::AuditError, context::RequestContext, recognition::error::RecognitionError};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Limits the searches of each key, or of each tenant if access is not controlled. Cheap to clone.
#[derive(Clone)]
pub struct SearchQuota {
    /// The audit trail.
    pub audit: Arc<dyn AuditStore>,
    /// The most searches in 24 hours. 0 is no limit.
    pub per_day: u32,
}

impl SearchQuota {
    /// Checks that the caller may make `wanted` searches now. Requests at the same moment can exceed the limit by their
    /// searches.
    ///
    /// # Errors
    /// [`RecognitionError::TooManySearches`] with the time until the caller may make one more search, or
    /// [`RecognitionError::Audit`] if the trail cannot be read.
    pub async fn check(
        &self,
        context: &RequestContext,
        (wanted, now): (usize, OffsetDateTime),
    ) -> Result<(), RecognitionError> {
        if self.per_day == 0 {
            return Ok(());
        }
        let caller = &context.principal;
        let since = now - DAY;
        let key = caller.key_id.as_deref();
        let limit = self.per_day;
        let searches = self
            .audit
            .count_searches((&caller.tenant, key), since, limit);
        // A search that cannot be counted cannot be recorded either.
        let searches = searches.await.map_err(|error| AuditError(Some(error)))?;
        if searches.count + wanted as u64 <= u64::from(limit) {
            return Ok(());
        }
        let end = match searches.oldest {
            Some(oldest) if searches.count >= u64::from(limit) => oldest + DAY,
            // Fewer searches are allowed at once.
            _ => now,
        };
        let wait = (end - now).max(time::Duration::SECOND);
        Err(RecognitionError::TooManySearches {
            limit,
            retry_after: wait.unsigned_abs(),
        })
    }
}
