//! Times as the databases keep them.

use time::OffsetDateTime;

/// Which rows are old enough to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryTimes {
    /// Those that are from before this time.
    pub before: OffsetDateTime,
    /// The time of the deletion.
    pub now: OffsetDateTime,
}

/// Returns a time as microseconds since 1970. Both databases compare these numbers in the same way.
pub(crate) fn micros(time: OffsetDateTime) -> i64 {
    i64::try_from(time.unix_timestamp_nanos() / 1000).unwrap_or(i64::MAX)
}

/// Converts microseconds since 1970 to a time.
pub(crate) fn from_micros(micros: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000).ok()
}

/// Cuts a time to microseconds. Postgres keeps no more, and both databases must return the same time.
pub(crate) fn to_the_microsecond(time: OffsetDateTime) -> OffsetDateTime {
    let utc = time.to_offset(time::UtcOffset::UTC);
    utc.replace_nanosecond(utc.microsecond() * 1000)
        .unwrap_or(utc)
}
