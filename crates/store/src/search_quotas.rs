//! How often each caller has searched in the last day.
//!
//! Searches are counted by minute. A minute counts until its end is a day old, so a caller never has more searches in 24 hours
//! than the limit.

use std::time::Duration;

use time::OffsetDateTime;

use crate::call::{change, query};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::record::{Columns, Record};
use crate::store::Store;
use crate::times::micros;

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

crate::prepared::statements! {
    /// Locks the row of the caller until the transaction ends.
    const LOCK = "INSERT INTO search_counters (tenant, key_id, searches) VALUES (:tenant, :key_id, 0) \
         ON CONFLICT (tenant, key_id) DO UPDATE SET searches = search_counters.searches";

    const COUNT = "SELECT CAST(coalesce(sum(searches), 0) AS bigint) AS searches, min(minute) AS oldest \
         FROM search_minutes WHERE tenant = :tenant AND key_id = :key AND minute > :now";

    const ADD_TO_MINUTE = "INSERT INTO search_minutes (tenant, key_id, minute, searches) VALUES (:tenant, :key_id, :minute, :searches) \
         ON CONFLICT (tenant, key_id, minute) DO UPDATE SET searches = search_minutes.searches + excluded.searches";

    const ADD = "UPDATE search_counters SET searches = searches + :more WHERE tenant = :tenant AND key_id = :key";

    const CLEAN =
        "DELETE FROM search_minutes WHERE tenant = :tenant AND key_id = :key AND minute <= :now";
}

impl Record for SearchCount {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let oldest = row.optional_time("oldest")?;
        Ok(Self {
            searches: row.number("searches")?,
            next_end: oldest.map(|minute| minute + MINUTE + DAY),
        })
    }
}

impl Store {
    /// Takes searches from the quota of a caller: all of them, or none if they do not fit. Concurrent calls never exceed the
    /// limit.
    pub async fn take_searches(
        &self,
        searcher: Searcher<'_>,
        searches: u64,
        now: OffsetDateTime,
    ) -> Result<TakenSearches, StoreError> {
        change!(self, "take_searches", |connection| {
            let (tenant, key) = (searcher.tenant, searcher.key_id.unwrap_or_default());
            connection
                .execute(LOCK, params!(tenant, key_id = key))
                .await?;
            let before = count(connection, searcher, now).await?;
            if before.searches.saturating_add(searches) > searcher.limit {
                return Ok(TakenSearches::Exceeded(before));
            }
            let minute = micros(now) - micros(now).rem_euclid(MINUTE.as_micros() as i64);
            let values = params!(tenant, key_id = key, minute, searches);
            connection.execute(ADD_TO_MINUTE, values).await?;
            connection
                .execute(ADD, params!(tenant, key, more = searches))
                .await?;
            let values = params!(tenant, key, now = over(now));
            connection.execute(CLEAN, values).await?;
            Ok(TakenSearches::Taken)
        })
    }

    /// Counts the searches of a caller.
    pub async fn count_searches(
        &self,
        searcher: Searcher<'_>,
        now: OffsetDateTime,
    ) -> Result<SearchCount, StoreError> {
        query!(self, "count_searches", |connection| {
            count(connection, searcher, now).await
        })
    }
}

async fn count(
    connection: &mut Connection<'_>,
    searcher: Searcher<'_>,
    now: OffsetDateTime,
) -> Result<SearchCount, StoreError> {
    let key = searcher.key_id.unwrap_or_default();
    let values = params!(tenant = searcher.tenant, key, now = over(now));
    Ok(connection.fetch_one(COUNT, values).await?)
}

/// Returns the begin of the newest minute that does not count any more.
fn over(now: OffsetDateTime) -> i64 {
    micros(now - DAY - MINUTE)
}
