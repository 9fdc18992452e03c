//! JSON that is kept as its text.

use std::io;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_transcode::transcode;
use sqlx::{Database, Decode, Encode, Type, encode::IsNull, error::BoxDynError, types::Json};

/// A JSON value of a caller as compact text, which takes a fraction of the memory of a tree.
///
/// It is read from any format, a value at a time, and only [`MAX_BYTES`](Self::MAX_BYTES) of its text are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText {
    text: String,
    is_too_long: bool,
}

impl JsonText {
    /// The longest text, in bytes.
    pub const MAX_BYTES: usize = 16 << 10;

    /// Returns the text, or `None` if it is longer than [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn get(&self) -> Option<&str> {
        (!self.is_too_long).then_some(&self.text)
    }

    /// Returns whether a text in the value has a NUL character.
    pub fn has_nul(&self) -> bool {
        has_nul(&self.text)
    }
}

/// Returns whether a text in a JSON value has a NUL character. JSON has only one way to write it.
pub fn has_nul(json: &str) -> bool {
    json.match_indices("\\u0000").any(|(at, _)| {
        // After an odd number of other backslashes, this one is itself escaped.
        let before = json[..at].bytes().rev();
        before.take_while(|byte| *byte == b'\\').count() % 2 == 0
    })
}

/// Keeps the beginning of a text.
#[derive(Default)]
struct Beginning {
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_too_long |= self.bytes.len() + bytes.len() > JsonText::MAX_BYTES;
        if !self.is_too_long {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut written = Beginning::default();
        let mut serializer = serde_json::Serializer::new(&mut written);
        transcode(deserializer, &mut serializer).map_err(D::Error::custom)?;
        Ok(Self {
            text: String::from_utf8(written.bytes).map_err(D::Error::custom)?,
            is_too_long: written.is_too_long,
        })
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        transcode(
            &mut serde_json::Deserializer::from_str(&self.text),
            serializer,
        )
    }
}

impl<DB: Database> Type<DB> for JsonText
where
    Json<Self>: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <Json<Self> as Type<DB>>::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        <Json<Self> as Type<DB>>::compatible(ty)
    }
}

impl<'q, DB: Database> Encode<'q, DB> for JsonText
where
    for<'a> Json<&'a Self>: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Json(self).encode(buffer)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for JsonText
where
    Json<Self>: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Json::<Self>::decode(value)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_compact_and_in_the_order_of_the_caller() {
        let read: JsonText =
            serde_json::from_str(" {\"b\" : [1, null, 0.5], \"a\": \"\\u00e9\"} ").unwrap();
        assert_eq!(read.get(), Some("{\"b\":[1,null,0.5],\"a\":\"é\"}"));
        assert_eq!(serde_json::to_string(&read).unwrap(), read.get().unwrap());
    }

    #[test]
    fn only_an_escaped_nul_is_a_nul() {
        for (json, expected) in [
            (r#"{"a":["\u0000"]}"#, true),
            (r#"{"a\u0000":1}"#, true),
            (r#""\\u0000""#, false),
            (r#""\\\u0000""#, true),
        ] {
            let read: JsonText = serde_json::from_str(json).unwrap();
            assert_eq!(read.has_nul(), expected, "{json}");
        }
    }

    #[test]
    fn a_long_text_is_read_to_its_end_and_not_kept() {
        let list = |length: usize| format!("[{}]", vec!["0"; length].join(","));
        let longest = list((JsonText::MAX_BYTES - 1) / 2);
        let read: JsonText = serde_json::from_str(&longest).unwrap();
        assert_eq!(read.get(), Some(longest.as_str()));
        let read: Vec<JsonText> = serde_json::from_str(&format!("[{},1]", list(100_000))).unwrap();
        assert_eq!((read[0].get(), read[1].get()), (None, Some("1")));
        assert!(read[0].text.capacity() <= 2 * JsonText::MAX_BYTES);
    }
}
