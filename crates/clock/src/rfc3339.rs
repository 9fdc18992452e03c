//! Times as the API writes them: RFC 3339 in UTC with six decimals, such as `2026-01-02T03:04:05.000000Z`.
//!
//! The databases keep microseconds. A time that is written before it is stored is therefore the same text as one that was read.

use std::num::NonZeroU8;

use serde::{Deserializer, Serialize, Serializer};
use time::{
    OffsetDateTime, UtcOffset,
    format_description::well_known::{
        Iso8601,
        iso8601::{Config, EncodedConfig, TimePrecision},
    },
};

const FORMAT: EncodedConfig = Config::DEFAULT
    .set_time_precision(TimePrecision::Second {
        decimal_digits: NonZeroU8::new(6),
    })
    .encode();

/// Returns a time as text. Empty for a year that RFC 3339 cannot have.
pub fn text(time: OffsetDateTime) -> String {
    to_the_microsecond(time)
        .format(&Iso8601::<FORMAT>)
        .unwrap_or_default()
}

/// Converts a time to UTC and cuts it to microseconds.
pub fn to_the_microsecond(time: OffsetDateTime) -> OffsetDateTime {
    let utc = time.to_offset(UtcOffset::UTC);
    utc.truncate_to_microsecond()
}

/// Writes a time.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(time: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time))
}

/// Reads a time with any offset and any number of decimals, and cuts it to microseconds.
///
/// # Errors
/// Those of the deserializer, or that the text is not a time.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OffsetDateTime, D::Error> {
    time::serde::rfc3339::deserialize(deserializer).map(to_the_microsecond)
}

/// The same for a time that can be absent.
pub mod option {
    use super::{Deserializer, OffsetDateTime, Serialize, Serializer, text, to_the_microsecond};

    /// Writes a time, or null.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        time: &Option<OffsetDateTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(text).serialize(serializer)
    }

    /// Reads a time, or null.
    ///
    /// # Errors
    /// Those of the deserializer, or that the text is not a time.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<OffsetDateTime>, D::Error> {
        let time = time::serde::rfc3339::option::deserialize(deserializer)?;
        Ok(time.map(to_the_microsecond))
    }
}

#[cfg(test)]
mod tests {
    use time::format_description::well_known::Rfc3339;

    use super::*;

    #[test]
    fn a_time_has_six_decimals_in_utc_whatever_it_was_sent_with() {
        for (sent, written) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
            (
                "2026-01-02T03:04:59.999999999+02:00",
                "2026-01-02T01:04:59.999999Z",
            ),
            (
                "2026-01-02T03:04:05.014661369Z",
                "2026-01-02T03:04:05.014661Z",
            ),
        ] {
            let time = OffsetDateTime::parse(sent, &Rfc3339).unwrap();
            assert_eq!(text(time), written);
            let read = OffsetDateTime::parse(written, &Rfc3339).unwrap();
            assert_eq!(read, to_the_microsecond(time));
        }
    }
}
