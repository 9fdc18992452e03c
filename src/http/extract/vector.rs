//! A vector in a JSON or msgpack body.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_fields::FieldError;
use facescan_recognition::verify::MAX_DIM;
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, SeqAccess},
};

#[derive(Debug)]
pub(super) enum VectorEntry {
    /// The values. One more than [`MAX_DIM`] means any larger number.
    Numbers(Vec<f32>),
    Base64(String),
}

impl<'de> Deserialize<'de> for VectorEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = VectorEntry;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of numbers, or little-endian 32-bit floats in base64")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<VectorEntry, E> {
                Ok(VectorEntry::Base64(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<VectorEntry, A::Error> {
                let mut values = Vec::new();
                while values.len() <= MAX_DIM {
                    match list.next_element()? {
                        Some(value) => values.push(value),
                        None => return Ok(VectorEntry::Numbers(values)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(VectorEntry::Numbers(values))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl VectorEntry {
    pub(super) fn into_values(self) -> Result<Vec<f32>, FieldError> {
        let text = match self {
            Self::Numbers(values) => return Ok(values),
            Self::Base64(text) => text,
        };
        let wrong =
            || FieldError::not_allowed("embedding", "little-endian 32-bit floats in base64");
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| wrong())?;
        let (values, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(wrong());
        }
        Ok(values.iter().copied().map(f32::from_le_bytes).collect())
    }
}
