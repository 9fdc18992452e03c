//! How often each caller has searched in the last day.
//!
//! Searches are counted by minute. A minute counts until its end is a day old, so a caller never has more searches in 24 hours
//! than the limit.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::StoreError;
use crate::{
    batches::{from_micros, micros},
    call::{change, query},
    dialect::{Dialect, Statements},
    record::record,
    sql_store::SqlStore,
    values::Value,
};

const MINUTE: Duration = Duration::from_secs(60);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Who searches, and how often they may.
#[derive(Clone, Copy, Debug)]
pub struct Searcher<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The key. `None` if access is not controlled.
    pub key_id: Option<&'a str>,
    /// The most searches in 24 hours.
    pub limit: u64,
}

/// The searches of a caller in the last day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchCount {
    /// Their number.
    pub searches: u64,
    /// When the oldest of them stop counting. `None` if there are none.
    pub next_end: Option<OffsetDateTime>,
}

/// Whether searches were taken from a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenSearches {
    /// They were.
    Taken,
    /// They do not fit. The count is that of the searches before.
    Exceeded(SearchCount),
}

/// The quotas of searches in one database.
///
/// # Errors
///
/// As for [`Store`](super::Store).
#[async_trait]
pub trait SearchQuotaStore: Send + Sync {
    /// Takes searches from the quota of a caller: all of them, or none if they do not fit. Concurrent calls never exceed the
    /// limit.
    async fn take_searches(
        &self,
        searcher: Searcher<'_>,
        searches: u64,
        now: OffsetDateTime,
    ) -> Result<TakenSearches, StoreError>;

    /// Counts the searches of a caller.
    async fn count_searches(
        &self,
        searcher: Searcher<'_>,
        now: OffsetDateTime,
    ) -> Result<SearchCount, StoreError>;
}

/// Locks the row of the caller until the transaction ends.
const LOCK: &str = "INSERT INTO search_counters (tenant, key_id, searches) VALUES ($1, $2, 0) \
     ON CONFLICT (tenant, key_id) DO UPDATE SET searches = search_counters.searches";

const COUNT: &str = "SELECT CAST(coalesce(sum(searches), 0) AS bigint) AS searches, min(minute) AS oldest \
     FROM search_minutes WHERE tenant = $1 AND key_id = $2 AND minute > $3";

const ADD_TO_MINUTE: &str = "INSERT INTO search_minutes (tenant, key_id, minute, searches) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (tenant, key_id, minute) DO UPDATE SET searches = search_minutes.searches + excluded.searches";

const ADD: &str =
    "UPDATE search_counters SET searches = searches + $3 WHERE tenant = $1 AND key_id = $2";

const CLEAN: &str = "DELETE FROM search_minutes WHERE tenant = $1 AND key_id = $2 AND minute <= $3";

record! {
    struct CountRow {
        searches: i64,
        oldest: Option<i64>,
    }
}

impl From<Option<CountRow>> for SearchCount {
    fn from(row: Option<CountRow>) -> Self {
        let oldest = row.as_ref().and_then(|row| row.oldest);
        Self {
            searches: row.map_or(0, |row| row.searches.cast_unsigned()),
            next_end: oldest
                .and_then(from_micros)
                .map(|minute| minute + MINUTE + DAY),
        }
    }
}

#[async_trait]
impl<DB: Dialect> SearchQuotaStore for SqlStore<DB> {
    async fn take_searches(
        &self,
        searcher: Searcher<'_>,
        searches: u64,
        now: OffsetDateTime,
    ) -> Result<TakenSearches, StoreError> {
        change!(self, "take_searches", |connection| take(
            connection, searcher, searches, now
        ))
    }

    async fn count_searches(
        &self,
        searcher: Searcher<'_>,
        now: OffsetDateTime,
    ) -> Result<SearchCount, StoreError> {
        query!(self, "count_searches", |connection| count(
            connection, searcher, now
        ))
    }
}

async fn take(
    connection: &mut impl Statements,
    searcher: Searcher<'_>,
    searches: u64,
    now: OffsetDateTime,
) -> Result<TakenSearches, StoreError> {
    let (tenant, key) = (searcher.tenant, searcher.key_id.unwrap_or_default());
    connection.execute(LOCK, &[&tenant, &key]).await?;
    let before = count(connection, searcher, now).await?;
    if before.searches.saturating_add(searches) > searcher.limit {
        return Ok(TakenSearches::Exceeded(before));
    }
    let more = i64::try_from(searches).unwrap_or(i64::MAX);
    let minute = micros(now) - micros(now).rem_euclid(MINUTE.as_micros() as i64);
    let values: [&dyn Value; 4] = [&tenant, &key, &minute, &more];
    connection.execute(ADD_TO_MINUTE, &values).await?;
    connection.execute(ADD, &[&tenant, &key, &more]).await?;
    let values: [&dyn Value; 3] = [&tenant, &key, &over(now)];
    connection.execute(CLEAN, &values).await?;
    Ok(TakenSearches::Taken)
}

async fn count(
    connection: &mut impl Statements,
    searcher: Searcher<'_>,
    now: OffsetDateTime,
) -> Result<SearchCount, StoreError> {
    let key = searcher.key_id.unwrap_or_default();
    let values: [&dyn Value; 3] = [&searcher.tenant, &key, &over(now)];
    let row: Option<CountRow> = connection.fetch_optional(COUNT, &values).await?;
    Ok(row.into())
}

/// Returns the begin of the newest minute that does not count any more.
fn over(now: OffsetDateTime) -> i64 {
    micros(now - DAY - MINUTE)
}
