//! JSON and msgpack bodies. The reader limits what it builds, because a small body can describe a huge tree.

use std::{cell::Cell, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{BodyContent, body_reader::StructuredBody};
use crate::{
    config::MAX_IMAGES,
    http::error::ApiError,
    ingest::{
        source::{ImageEntry, ImageInput},
        text::NUL,
    },
};

/// The maximum number of options, and of values on one level of an option.
pub(super) const MAX_OPTIONS: usize = 64;

/// The maximum depth of options: the options, a list, its items, and lists of numbers in them.
const MAX_DEPTH: usize = 4;

/// The maximum number of values in all options.
const MAX_VALUES: usize = 1024;

/// The maximum length of all texts in options, in bytes.
pub(super) const MAX_OPTIONS_BYTES: usize = 256 << 10;

/// The maximum length of the name of an option, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The maximum depth of a msgpack body. The JSON parser has the same limit, and reads what the database has stored.
pub(super) const MAX_NESTING: usize = 128;

/// A JSON or msgpack body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The images, at most [`MAX_IMAGES`].
    #[serde(deserialize_with = "entries")]
    pub images: Vec<ImageEntry>,
    /// The masks of the images, with the same limit.
    #[serde(default, deserialize_with = "entries")]
    pub masks: Vec<ImageEntry>,
    /// The options by name.
    #[serde(default)]
    pub options: Option<Options>,
}

/// The largest number up to which all integers are exact in a float.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Converts a number. JSON Schema treats `91.0` as the integer `91`.
pub fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() <= MAX_EXACT_INTEGER {
        Value::from(value as i64)
    } else {
        value.into()
    }
}

/// Parses msgpack.
pub fn from_msgpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(MAX_NESTING);
    T::deserialize(&mut reader)
}

impl StructuredBody for Body {}

impl Body {
    /// Returns the images, the masks and the options.
    pub(super) fn read(self) -> Result<BodyContent, ApiError> {
        Ok(BodyContent {
            images: self.images.into_iter().map(ImageInput::from).collect(),
            masks: self.masks.into_iter().map(ImageInput::from).collect(),
            options: self.options.map(|options| options.0),
        })
    }
}

/// The beginning of the error of a list that is too long. The errors of serde have only a text.
const TOO_MANY: &str = "the list is too long";

/// Returns the error of a body that is not what its route takes. `limit` is the number of images that a request may have.
pub(super) fn malformed(detail: String, limit: usize) -> ApiError {
    match detail {
        detail if detail.starts_with(TOO_MANY) => ApiError::TooManyImages { limit },
        detail if detail.starts_with(NUL) => ApiError::invalid_option("body", NUL),
        detail => ApiError::invalid_body(detail),
    }
}

/// Options by name: plain values, and small lists and objects. Deeper values are replaced by empty ones.
pub struct Options(pub Value);

/// The fields of an object: plain values, and options by name.
pub struct Fields(pub Map<String, Value>);

/// Reads the fields of an object one by one, with the limits of [`Fields`].
#[derive(Default)]
pub(super) struct FieldReader {
    left: Left,
}

/// What options may still have.
struct Left {
    values: Cell<usize>,
    /// The bytes of texts.
    bytes: Cell<usize>,
}

impl Default for Left {
    fn default() -> Self {
        Self {
            values: Cell::new(MAX_VALUES),
            bytes: Cell::new(MAX_OPTIONS_BYTES),
        }
    }
}

impl FieldReader {
    /// Returns what reads the value of the next field, after `read` fields.
    ///
    /// # Errors
    /// An error if the object has too many fields, or if the name is too long.
    pub(super) fn value<'de, E: Error>(
        &self,
        name: &str,
        read: usize,
    ) -> Result<impl DeserializeSeed<'de, Value = Value>, E> {
        let tree = Tree::new(MAX_DEPTH, &self.left);
        tree.count(read)?;
        check_name(name)?;
        Ok(tree)
    }
}

/// Reads a list of images or faces, at most [`MAX_IMAGES`].
pub(super) fn entries<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Entries<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of images")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = list.next_element()? {
                if entries.len() == MAX_IMAGES {
                    return Err(A::Error::custom(TOO_MANY));
                }
                entries.push(entry);
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_seq(Entries(PhantomData))
}

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Left::default();
        Tree::new(MAX_DEPTH, &left)
            .deserialize(deserializer)
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Left::default();
        // The options are one of the fields.
        match Tree::new(MAX_DEPTH + 1, &left).deserialize(deserializer)? {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(D::Error::custom("must be an object")),
        }
    }
}

/// Reads a tree of `depth` levels. Skips deeper values, so that the typed options can refuse them by name.
#[derive(Clone, Copy)]
struct Tree<'a> {
    depth: usize,
    /// What may still be kept.
    left: &'a Left,
}

impl<'a> Tree<'a> {
    fn new(depth: usize, left: &'a Left) -> Self {
        Self { depth, left }
    }

    /// Returns the reader of the next level, or `None` at the maximum depth.
    fn deeper(self) -> Option<Self> {
        Some(Self {
            depth: self.depth.checked_sub(1)?,
            ..self
        })
    }

    /// Counts a value of a level that already has `kept` values.
    fn count<E: Error>(self, kept: usize) -> Result<(), E> {
        match self.left.values.get().checked_sub(1) {
            Some(left) if kept < MAX_OPTIONS => {
                self.left.values.set(left);
                Ok(())
            }
            _ => Err(E::custom("there are too many options or values")),
        }
    }
}

fn check_name<E: Error>(name: &str) -> Result<(), E> {
    match name.len() > MAX_NAME_BYTES {
        true => Err(E::custom(format!(
            "the name of an option is longer than {MAX_NAME_BYTES} bytes"
        ))),
        false => Ok(()),
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("options by name")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        let left = self.left.bytes.get().checked_sub(value.len());
        let left = left.ok_or_else(|| {
            E::custom(format!(
                "the texts of the options have more than {MAX_OPTIONS_BYTES} bytes"
            ))
        })?;
        self.left.bytes.set(left);
        match value.contains('\0') {
            true => Err(E::custom(NUL)),
            false => Ok(value.into()),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        if let Some(deeper) = self.deeper() {
            while let Some(value) = list.next_element_seed(deeper)? {
                self.count(kept.len())?;
                kept.push(value);
            }
        } else {
            while list.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        if let Some(deeper) = self.deeper() {
            while let Some(name) = map.next_key::<String>()? {
                self.count(kept.len())?;
                check_name(&name)?;
                kept.insert(name, map.next_value_seed(deeper)?);
            }
        } else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        }
        Ok(Value::Object(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_too_many_images_ends_the_reading() {
        let json = format!(r#"{{"images":[{}and no JSON"#, "{},".repeat(MAX_IMAGES + 1));
        let error = serde_json::from_str::<Body>(&json).err().unwrap();
        let error = malformed(error.to_string(), 7);
        assert!(matches!(error, ApiError::TooManyImages { limit: 7 }));
    }

    #[test]
    fn a_nul_character_is_an_invalid_option_in_every_text() {
        for json in [
            r#"{"images":[{"id":"a\u0000"}]}"#,
            r#"{"images":[{"source":"\u0000"}]}"#,
            r#"{"images":[],"options":{"source":"\u0000"}}"#,
            r#"{"images":[],"options":{"operations":[{"op":"\u0000"}]}}"#,
        ] {
            let error = serde_json::from_str::<Body>(json).err().unwrap();
            let error = malformed(error.to_string(), 1);
            assert_eq!(error.kind().status, 422, "{json}: {error}");
        }
    }

    /// The database stores metadata as JSON. A deeper tree could be stored and never read again.
    #[test]
    fn msgpack_is_as_deep_as_json_and_not_deeper() {
        for (depth, is_read) in [(126, true), (127, true), (128, false), (1000, false)] {
            let packed = [vec![0x91; depth], vec![0xC0]].concat();
            let tree = from_msgpack::<Value>(&packed);
            assert_eq!(tree.is_ok(), is_read, "{depth}");
            let text = format!("{}null{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(
                serde_json::from_str::<Value>(&text).is_ok(),
                is_read,
                "{depth}"
            );
        }
    }

    #[test]
    fn options_are_plain_and_few() {
        let read = |json: &str| serde_json::from_str::<Options>(json).map(|options| options.0);
        let plain = serde_json::json!({"a": 1, "b": -0.5, "c": "x", "d": true, "e": null});
        assert_eq!(read(&plain.to_string()).unwrap(), plain);
        assert_eq!(
            read(r#"{"a":[{"b":[1,[2]]},3]}"#).unwrap(),
            serde_json::json!({"a": [{"b": [1, []]}, 3]})
        );
        let wide = format!("[{}1]", "1,".repeat(60));
        let many = format!(r#"{{"a":[{}{wide}]}}"#, format!("{wide},").repeat(20));
        assert!(read(&many).is_err(), "more than {MAX_VALUES} values");
        let many: String = (0..=MAX_OPTIONS).map(|n| format!(r#""{n}":1,"#)).collect();
        assert!(read(&format!("{{{many}\"z\":1}}")).is_err());
        let text = format!("[\"{}\"", "x".repeat(MAX_OPTIONS_BYTES / 2));
        assert!(read(&format!("{text}]")).is_ok());
        let error = read(&format!("[{text}],{text},\"x\"]]")).unwrap_err();
        assert!(error.to_string().contains("262144 bytes"), "{error}");
    }
}
