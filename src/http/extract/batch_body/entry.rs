//! An entry of a structured body. A field of the wrong type refuses its entry alone, and not the whole body.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use crate::{
    batches::submission::{EntryContent, EntryError, ItemEntry},
    ingest::{error::IngestError, source::Payload},
};

/// An entry before its fields are checked.
#[derive(Debug, Default)]
pub(super) struct LooseEntry {
    id: Option<Loose>,
    data: Option<Loose>,
    url: Option<Loose>,
    source: Option<Loose>,
    source_url: Option<Loose>,
    metadata: Option<Value>,
    /// Why the entry is malformed.
    problem: Option<String>,
}

/// A field of any type.
#[derive(Debug)]
enum Loose {
    Null,
    Text(String),
    Binary(Vec<u8>),
    Other,
}

impl LooseEntry {
    /// Checks the types of the fields and decodes base64. This is CPU work.
    pub(super) fn into_entry(self) -> Result<ItemEntry, EntryError> {
        if let Some(problem) = self.problem {
            return Err(EntryError::Malformed(problem));
        }
        let data = match self.data {
            None | Some(Loose::Null) => None,
            Some(Loose::Text(text)) => Some(Payload::Text(text)),
            Some(Loose::Binary(bytes)) => Some(Payload::Binary(bytes)),
            Some(Loose::Other) => return Err(wrong_type("data")),
        };
        let url = text("url", self.url)?;
        Ok(ItemEntry {
            id: text("id", self.id)?,
            content: match (data, url) {
                (Some(_), Some(_)) => return Err(IngestError::TwoSources.into()),
                (Some(data), None) => Some(EntryContent::Bytes(data.into_bytes()?)),
                (None, Some(url)) => Some(EntryContent::Url(url)),
                (None, None) => None,
            },
            source: text("source", self.source)?,
            source_url: text("source_url", self.source_url)?,
            metadata: self.metadata,
        })
    }
}

fn text(name: &str, field: Option<Loose>) -> Result<Option<String>, EntryError> {
    match field {
        None | Some(Loose::Null) => Ok(None),
        Some(Loose::Text(text)) => Ok(Some(text)),
        Some(Loose::Binary(_) | Loose::Other) => Err(wrong_type(name)),
    }
}

fn wrong_type(name: &str) -> EntryError {
    EntryError::Malformed(format!("`{name}` must be text"))
}

impl<'de> Deserialize<'de> for LooseEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = LooseEntry;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an item")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LooseEntry, A::Error> {
                let mut entry = LooseEntry::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "id" => entry.id = Some(map.next_value()?),
                        "data" => entry.data = Some(map.next_value()?),
                        "url" => entry.url = Some(map.next_value()?),
                        "source" => entry.source = Some(map.next_value()?),
                        "source_url" => entry.source_url = Some(map.next_value()?),
                        "metadata" => entry.metadata = Some(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            entry.problem = Some(format!(
                                "the field `{name:.40}` is unknown; an item has id, data, url, source, source_url and metadata"
                            ));
                        }
                    }
                }
                Ok(entry)
            }
        }
        match deserializer.deserialize_any(MaybeFields(Fields))? {
            Some(entry) => Ok(entry),
            None => Ok(LooseEntry {
                problem: Some("an item must be an object".to_owned()),
                ..LooseEntry::default()
            }),
        }
    }
}

/// Visits an object with the inner visitor, and skips every other value.
struct MaybeFields<V>(V);

/// Implements the methods of a visitor for values that are skipped.
macro_rules! skip_scalars {
    ($($method:ident: $type:ty,)+) => {
        $(fn $method<E: de::Error>(self, _: $type) -> Result<Self::Value, E> {
            Ok(Self::Value::skipped())
        })+

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::skipped())
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::skipped())
        }
    };
}

/// A value that stands for one that is skipped.
trait Skipped {
    fn skipped() -> Self;
}

impl<T> Skipped for Option<T> {
    fn skipped() -> Self {
        None
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for MaybeFields<V> {
    type Value = Option<V::Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.0.visit_map(map).map(Some)
    }

    skip_scalars! {
        visit_bool: bool,
        visit_i64: i64,
        visit_u64: u64,
        visit_f64: f64,
        visit_str: &str,
        visit_bytes: &[u8],
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Loose;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text or binary data")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Loose, E> {
                Ok(Loose::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Loose, E> {
                Ok(Loose::Text(text))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Loose, E> {
                Ok(Loose::Binary(bytes.to_vec()))
            }

            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Loose, E> {
                Ok(Loose::Binary(bytes))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Loose, E> {
                Ok(Loose::Null)
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Loose, E> {
                Ok(Loose::Other)
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Loose, E> {
                Ok(Loose::Other)
            }

            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Loose, E> {
                Ok(Loose::Other)
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Loose, E> {
                Ok(Loose::Other)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Loose, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Loose::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Loose::Other)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(json: &str) -> Vec<Result<ItemEntry, EntryError>> {
        let loose: Vec<LooseEntry> = serde_json::from_str(json).unwrap();
        loose.into_iter().map(LooseEntry::into_entry).collect()
    }

    #[test]
    fn a_malformed_entry_refuses_itself_alone() {
        let read = entries(
            r#"[{"id":"a","data":"aGVsbG8="}, 7, {"data":7}, {"data":"!"}, {"dta":"x"}, {"data":"","url":"x"},
                {"url":"https://example.org/a.jpg","metadata":{"page":1}}]"#,
        );
        let codes: Vec<_> = read
            .iter()
            .map(|entry| entry.as_ref().map_or_else(EntryError::code, |_| "ok"))
            .collect();
        let wrong = "invalid_body";
        assert_eq!(codes, ["ok", wrong, wrong, wrong, wrong, wrong, "ok"]);
    }

    #[test]
    fn msgpack_has_the_bytes_themselves() {
        #[derive(serde::Serialize)]
        struct Sent<'a> {
            id: &'a str,
            #[serde(with = "bytes_as_binary")]
            data: &'a [u8],
        }
        mod bytes_as_binary {
            pub fn serialize<S: serde::Serializer>(
                bytes: &&[u8],
                to: S,
            ) -> Result<S::Ok, S::Error> {
                to.serialize_bytes(bytes)
            }
        }
        let sent = Sent {
            id: "a",
            data: b"hello",
        };
        let packed = rmp_serde::to_vec_named(&sent).unwrap();
        let read: LooseEntry = rmp_serde::from_slice(&packed).unwrap();
        let entry = read.into_entry().unwrap();
        assert!(matches!(entry.content, Some(EntryContent::Bytes(bytes)) if bytes == b"hello"[..]));
    }
}
