//! Bytes as base64 in a response. They are encoded while the response is written, so they are never in memory as a text beside it.

use std::fmt::{self, Display};

use base64::{display::Base64Display, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::Serializer;

/// Serializes bytes as one text.
pub fn serialize<S: Serializer>(data: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(data, &BASE64_STANDARD))
}

/// Serializes the rows of a tensor as one text. The length of each row must be a multiple of three bytes, so that only the end
/// of the text could have padding.
pub fn serialize_rows<S: Serializer>(rows: &[Bytes], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Rows(rows))
}

struct Rows<'a>(&'a [Bytes]);

impl Display for Rows<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|row| Base64Display::new(row, &BASE64_STANDARD).fmt(formatter))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    #[test]
    fn rows_are_the_base64_of_their_concatenation() {
        let rows: Vec<Bytes> = (1..20).map(|n| vec![n; 3 * n as usize].into()).collect();
        let text = Rows(&rows).to_string();
        assert_eq!(text, BASE64_STANDARD.encode(rows.concat()));
    }
}
