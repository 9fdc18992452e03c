//! The JSON and msgpack bodies of submissions.

use std::fmt;

use axum::extract::Request;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{
    super::{
        arriving::SharedReservation,
        body::{FieldReader, malformed},
        body_reader::{StructuredBody, structured},
    },
    entry::LooseEntry,
};
use crate::{
    batches::submission::{EntryError, ItemEntry},
    http::{AppState, error::ApiError},
};

/// The maximum number of items of a body that is read as a whole. Each takes memory of its own, however short it is.
pub const MAX_ITEMS: usize = 10_000;

/// The beginning of the error of a body with too many items. The errors of serde have only a text.
const TOO_MANY: &str = "there are too many items";

/// A JSON or msgpack body.
#[derive(Default)]
pub(super) struct WholeBody {
    pub items: Vec<Result<ItemEntry, EntryError>>,
    /// All other fields.
    pub head: Map<String, Value>,
}

impl StructuredBody for WholeBody {
    fn malformed(detail: String, limit: usize) -> ApiError {
        match detail.starts_with(TOO_MANY) {
            true => ApiError::TooManyItems { limit: MAX_ITEMS },
            false => malformed(detail, limit),
        }
    }
}

/// Reads a JSON or msgpack body.
///
/// # Errors
/// As [`structured`].
pub(super) async fn read(
    request: Request,
    state: &AppState,
    reservation: &SharedReservation,
    is_json: bool,
) -> Result<WholeBody, ApiError> {
    structured(request, state, reservation, is_json, Ok::<WholeBody, _>).await
}

impl<'de> Deserialize<'de> for WholeBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl<'de> Visitor<'de> for Whole {
            type Value = WholeBody;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with `items`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WholeBody, A::Error> {
                let mut body = WholeBody::default();
                let mut has_items = false;
                let fields = FieldReader::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name != "items" {
                        let value = map.next_value_seed(fields.value(&name, body.head.len())?)?;
                        body.head.insert(name, value);
                    } else if has_items {
                        return Err(A::Error::duplicate_field("items"));
                    } else {
                        has_items = true;
                        body.items = map.next_value_seed(Items)?;
                    }
                }
                Ok(body)
            }
        }
        deserializer.deserialize_map(Whole)
    }
}

/// Reads the items, each of which is refused alone.
struct Items;

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Vec<Result<ItemEntry, EntryError>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Result<ItemEntry, EntryError>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(entry) = list.next_element::<LooseEntry>()? {
            if items.len() == MAX_ITEMS {
                return Err(A::Error::custom(TOO_MANY));
            }
            items.push(entry.into_entry());
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<WholeBody, ApiError> {
        let read: Result<WholeBody, _> = serde_json::from_str(json);
        read.map_err(|error| WholeBody::malformed(error.to_string(), 1))
    }

    #[test]
    fn items_and_other_fields_come_in_any_order() {
        let body = read(
            r#"{"name":"a","items":[{"url":"x"},7],"options":{"operations":[{"box":[1,2]}]}}"#,
        );
        let WholeBody { items, head } = body.unwrap();
        assert_eq!(
            items.iter().map(Result::is_ok).collect::<Vec<_>>(),
            [true, false]
        );
        let head = Value::Object(head).to_string();
        assert_eq!(
            head,
            r#"{"name":"a","options":{"operations":[{"box":[1,2]}]}}"#
        );
    }

    #[test]
    fn a_body_with_too_many_items_or_fields_is_not_read_further() {
        let too_many = format!(r#"{{"items":[{}and no JSON"#, "0,".repeat(MAX_ITEMS + 1));
        assert!(matches!(
            read(&too_many),
            Err(ApiError::TooManyItems { .. })
        ));
        let many: String = (0..100).map(|n| format!(r#""{n}":[],"#)).collect();
        let error = read(&format!("{{{many}and no JSON")).err().unwrap();
        assert!(error.to_string().contains("too many options"), "{error}");
        assert!(read(r#"{"items":[],"items":[]}"#).is_err());
    }
}
