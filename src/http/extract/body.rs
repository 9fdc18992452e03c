//! The trees in JSON and msgpack bodies. The reader limits what it builds, because a small body can describe a huge tree.

use std::{cell::Cell, fmt};

use facescan_pipeline::ingest::text::NUL;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

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
            _ => Err(D::Error::custom("expected an object")),
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
