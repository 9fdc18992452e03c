//! An entry of a structured body. A field of the wrong type refuses its entry alone, and not the whole body.

use std::{borrow::Cow, fmt, marker::PhantomData};

use facescan_store::JsonText;
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, Visitor},
};

use crate::{
    batches::submission::{EntryContent, EntryError, ItemEntry},
    ingest::{error::IngestError, source::Payload, text::NUL},
    pipeline::core::error::InvalidOption,
};

/// An entry before its fields are checked.
#[derive(Debug, Default)]
pub(super) struct LooseEntry {
    id: Loose<String>,
    data: Loose<Payload>,
    url: Loose<String>,
    source: Loose<String>,
    source_url: Loose<String>,
    metadata: Option<JsonText>,
    /// Why the entry is malformed.
    problem: Option<Cow<'static, str>>,
}

/// A field of any type.
#[derive(Debug, Default)]
enum Loose<T> {
    #[default]
    Absent,
    Present(T),
    OtherType,
}

/// What a field is made of.
trait FieldContent: Sized {
    fn from_text(text: &str) -> Self;

    /// Returns `None` if the field has no binary form.
    fn from_binary(bytes: &[u8]) -> Option<Self>;
}

impl FieldContent for String {
    fn from_text(text: &str) -> Self {
        text.to_owned()
    }

    fn from_binary(_: &[u8]) -> Option<Self> {
        None
    }
}

impl FieldContent for Payload {
    fn from_text(text: &str) -> Self {
        Self::from_text(text)
    }

    fn from_binary(bytes: &[u8]) -> Option<Self> {
        Some(Self::from_binary(bytes))
    }
}

impl LooseEntry {
    /// Checks the types of the fields.
    pub(super) fn into_entry(self) -> Result<ItemEntry, EntryError> {
        if let Some(problem) = self.problem {
            return Err(EntryError::Malformed(problem));
        }
        let data = typed("data", self.data)?;
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

fn typed<T>(name: &str, field: Loose<T>) -> Result<Option<T>, EntryError> {
    match field {
        Loose::Absent => Ok(None),
        Loose::Present(value) => Ok(Some(value)),
        Loose::OtherType => Err(EntryError::Malformed(
            format!("`{name}` must be text").into(),
        )),
    }
}

fn text(name: &str, field: Loose<String>) -> Result<Option<String>, EntryError> {
    match typed(name, field)? {
        Some(text) if text.contains('\0') => Err(InvalidOption::new(name, NUL).into()),
        text => Ok(text),
    }
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
                        "id" => entry.id = map.next_value()?,
                        "data" => entry.data = map.next_value()?,
                        "url" => entry.url = map.next_value()?,
                        "source" => entry.source = map.next_value()?,
                        "source_url" => entry.source_url = map.next_value()?,
                        "metadata" => entry.metadata = Some(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            entry.problem = Some(
                                format!(
                                    "the field `{name:.40}` is unknown; an item has id, data, url, source, source_url and metadata"
                                )
                                .into(),
                            );
                        }
                    }
                }
                Ok(entry)
            }
        }
        match deserializer.deserialize_any(MaybeFields(Fields))? {
            Some(entry) => Ok(entry),
            None => Ok(LooseEntry {
                problem: Some("an item must be an object".into()),
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

impl<'de, T: FieldContent> Deserialize<'de> for Loose<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any<T>(PhantomData<T>);

        impl<'de, T: FieldContent> Visitor<'de> for Any<T> {
            type Value = Loose<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text or binary data")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Loose<T>, E> {
                Ok(Loose::Present(T::from_text(text)))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Loose<T>, E> {
                Ok(T::from_binary(bytes).map_or(Loose::OtherType, Loose::Present))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Loose<T>, E> {
                Ok(Loose::Absent)
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Loose<T>, E> {
                Ok(Loose::OtherType)
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Loose<T>, E> {
                Ok(Loose::OtherType)
            }

            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Loose<T>, E> {
                Ok(Loose::OtherType)
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Loose<T>, E> {
                Ok(Loose::OtherType)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Loose<T>, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Loose::OtherType)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose<T>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Loose::OtherType)
            }
        }
        deserializer.deserialize_any(Any(PhantomData))
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
                {"url":"https://example.org/a.jpg","metadata":{"page":1}}, {"id":"a\u0000"}]"#,
        );
        let codes: Vec<_> = read
            .iter()
            .map(|entry| entry.as_ref().map_or_else(EntryError::code, |_| "ok"))
            .collect();
        let wrong = "invalid_body";
        assert_eq!(
            codes,
            [
                "ok",
                wrong,
                wrong,
                wrong,
                wrong,
                wrong,
                "ok",
                "invalid_option"
            ]
        );
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
