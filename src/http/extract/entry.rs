//! An entry of a JSON or msgpack body: an image, a face or an item.
//!
//! A field of the wrong type is noted, and the rest of the body is read. So one response has every mistake, and a batch refuses one
//! entry alone.

use std::fmt;

use facescan_fields::FieldError;
use facescan_pipeline::ingest::{source::Payload, text::NUL};
use facescan_store::JsonText;
use serde::{
    Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};

use super::vector::VectorEntry;

/// The most mistakes that are noted of one entry.
const MAX_ERRORS: usize = 4;

/// The fields of an entry, each of the type that it must have.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub id: Option<String>,
    pub data: Option<Payload>,
    pub url: Option<String>,
    pub source: Option<String>,
    pub source_url: Option<String>,
    pub metadata: Option<JsonText>,
    pub face_id: Option<String>,
    pub embedding: Option<VectorEntry>,
    pub vector_space: Option<String>,
    /// The fields that are unknown or of another type. The entry itself has no name.
    pub errors: Vec<FieldError>,
}

impl Entry {
    fn add(&mut self, error: FieldError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    /// Returns the text of a field, or notes why it has none.
    fn text(&mut self, name: &str, field: Loose<String>) -> Option<String> {
        match field {
            Loose::Present(text) if text.contains('\0') => self.add(FieldError::new(name, NUL)),
            Loose::Present(text) => return Some(text),
            Loose::OtherType => self.add(FieldError::not_allowed(name, "text")),
            Loose::Absent => {}
        }
        None
    }
}

/// Reads an entry that can have these fields.
#[derive(Clone, Copy)]
pub(super) struct EntrySeed(pub &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for EntrySeed {
    type Value = Entry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Implements methods of a visitor that skip their value and return `$value`.
macro_rules! skip {
    ($value:expr; $($method:ident: $type:ty),+) => {
        $(fn $method<E: serde::de::Error>(self, _: $type) -> Result<Self::Value, E> {
            Ok($value)
        })+
    };
}

/// Implements the methods of a visitor for every value that is no list and no object. They skip it and return `$value`.
macro_rules! skip_plain {
    ($value:expr) => {
        $crate::http::extract::entry::skip! {
            $value;
            visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str, visit_bytes: &[u8]
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
}

pub(super) use {skip, skip_plain};

impl<'de> Visitor<'de> for EntrySeed {
    type Value = Entry;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let mut entry = Entry::default();
        while let Some(name) = map.next_key::<String>()? {
            if !self.0.contains(&name.as_str()) {
                map.next_value::<IgnoredAny>()?;
                let known = self.0.iter().copied();
                entry.add(FieldError::unknown(name.as_str(), &name, known));
                continue;
            }
            match name.as_str() {
                "data" => {
                    entry.data = match map.next_value_seed(DATA)? {
                        Loose::Present(data) => Some(data),
                        Loose::Absent => None,
                        Loose::OtherType => {
                            entry.add(FieldError::not_allowed("data", "base64 text"));
                            None
                        }
                    };
                }
                "metadata" => entry.metadata = Some(map.next_value()?),
                "embedding" => entry.embedding = map.next_value()?,
                name => {
                    let text = map.next_value_seed(TEXT)?;
                    let text = entry.text(name, text);
                    match name {
                        "id" => entry.id = text,
                        "url" => entry.url = text,
                        "source" => entry.source = text,
                        "source_url" => entry.source_url = text,
                        "face_id" => entry.face_id = text,
                        _ => entry.vector_space = text,
                    }
                }
            }
        }
        Ok(entry)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Entry, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(no_object())
    }

    skip_plain!(no_object());
}

/// Returns an entry that is no object. The usual one is base64 without its field.
fn no_object() -> Entry {
    let error = FieldError::not_allowed("", r#"an object such as {"data": "<base64>"}"#);
    Entry {
        errors: vec![error],
        ..Entry::default()
    }
}

/// A field of any type.
#[derive(Debug)]
enum Loose<T> {
    Absent,
    Present(T),
    OtherType,
}

/// Reads a field of any type from text or from bytes.
struct LooseSeed<T> {
    text: fn(&str) -> T,
    /// `None` if the field has no binary form.
    binary: Option<fn(&[u8]) -> T>,
}

const TEXT: LooseSeed<String> = LooseSeed {
    text: str::to_owned,
    binary: None,
};

const DATA: LooseSeed<Payload> = LooseSeed {
    text: Payload::from_text,
    binary: Some(Payload::from_binary),
};

impl<'de, T> DeserializeSeed<'de> for LooseSeed<T> {
    type Value = Loose<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Loose<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T> Visitor<'de> for LooseSeed<T> {
    type Value = Loose<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text or binary data")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Loose<T>, E> {
        Ok(Loose::Present((self.text)(text)))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Loose<T>, E> {
        let read = self.binary.map(|read| Loose::Present(read(bytes)));
        Ok(read.unwrap_or(Loose::OtherType))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Loose<T>, E> {
        Ok(Loose::Absent)
    }

    skip! { Loose::OtherType; visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64 }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Loose<T>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::OtherType)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose<T>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose::OtherType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[&str] = &["id", "data", "url", "metadata"];

    fn entry(json: &str) -> Entry {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        EntrySeed(FIELDS).deserialize(&mut deserializer).unwrap()
    }

    #[test]
    fn every_mistake_of_an_entry_is_noted() {
        for (json, expected) in [
            (r#"{"id":"a","data":"aGVsbG8=","metadata":{"a":1}}"#, ""),
            (
                r#"{"id":7,"dta":"x","url":["x"]}"#,
                "id must be text; dta is unknown; did you mean `data`?; url must be text",
            ),
            (r#"{"data":{}}"#, "data must be base64 text"),
            (
                r#""aGVsbG8=""#,
                r#" must be an object such as {"data": "<base64>"}"#,
            ),
            (
                "[1,[2]]",
                r#" must be an object such as {"data": "<base64>"}"#,
            ),
        ] {
            let errors = entry(json).errors.into_iter();
            let texts: Vec<_> = errors
                .map(|error| format!("{} {}", error.field, error.detail))
                .collect();
            assert_eq!(texts.join("; "), expected, "{json}");
        }
        assert_eq!(entry(r#"{"id":"a\u0000"}"#).errors[0].detail, NUL);
    }
}
