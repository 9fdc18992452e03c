//! A face as a caller names it: in an image, stored, or as a vector.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, SeqAccess},
};
use uuid::Uuid;

use crate::{
    http::error::ApiError,
    ingest::{
        source::{ImageEntry, ImageInput, Payload},
        text::optional_text,
    },
    recognition::verify::{FaceVector, MAX_DIM},
};

/// A face as the caller named it.
#[derive(Debug)]
pub enum FaceInput {
    /// An image that shows the face.
    Image(ImageInput),
    /// The id of a stored face.
    Stored(Uuid),
    /// A vector.
    Vector(FaceVector),
}

impl FaceInput {
    /// Returns the image, if one was sent.
    pub fn image(&self) -> Option<&ImageInput> {
        match self {
            Self::Image(image) => Some(image),
            Self::Stored(_) | Self::Vector(_) => None,
        }
    }
}

/// A face in a JSON or msgpack body. Exactly one of the first four fields is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaceEntry {
    #[serde(default)]
    data: Option<Payload>,
    #[serde(default, deserialize_with = "optional_text")]
    url: Option<String>,
    // A text also in msgpack, where a `Uuid` would be binary.
    #[serde(default, deserialize_with = "optional_text")]
    face_id: Option<String>,
    #[serde(default)]
    embedding: Option<VectorEntry>,
    /// The contract of the embedding.
    #[serde(default, deserialize_with = "optional_text")]
    contract: Option<String>,
}

/// A vector in a body.
enum VectorEntry {
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

impl FaceEntry {
    /// Reads a face. `name` is its name in the body.
    pub fn read(self, name: &str) -> Result<FaceInput, ApiError> {
        let named = [
            self.data.is_some(),
            self.url.is_some(),
            self.face_id.is_some(),
            self.embedding.is_some(),
        ];
        if named.into_iter().filter(|is_named| *is_named).count() != 1 {
            return Err(ApiError::InvalidBody(format!(
                "`{name}` must have exactly one of data, url, face_id and embedding"
            )));
        }
        if self.embedding.is_some() != self.contract.is_some() {
            return Err(ApiError::InvalidBody(format!(
                "`{name}` must have a contract with an embedding, and only then"
            )));
        }
        if let Some(id) = self.face_id {
            return stored(&id, "face_id");
        }
        if let (Some(embedding), Some(contract)) = (self.embedding, self.contract) {
            let vector = FaceVector::of_caller(contract, embedding.into_values()?)?;
            return Ok(FaceInput::Vector(vector));
        }
        Ok(FaceInput::Image(ImageInput::from(ImageEntry {
            id: None,
            data: self.data,
            url: self.url,
            source: None,
            source_url: None,
        })))
    }
}

/// Reads the id of a stored face.
pub(super) fn stored(text: &str, option: &str) -> Result<FaceInput, ApiError> {
    let id = text.trim().parse().map(FaceInput::Stored);
    id.map_err(|_| ApiError::invalid_option(option, "is not the id of a face; ids are UUIDs"))
}

impl VectorEntry {
    fn into_values(self) -> Result<Vec<f32>, ApiError> {
        let text = match self {
            Self::Numbers(values) => return Ok(values),
            Self::Base64(text) => text,
        };
        let bytes = BASE64_STANDARD.decode(text);
        let bytes =
            bytes.map_err(|error| ApiError::invalid_option("embedding", error.to_string()))?;
        let (values, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            let detail = "must be 32-bit floats, so a multiple of 4 bytes";
            return Err(ApiError::invalid_option("embedding", detail));
        }
        Ok(values.iter().copied().map(f32::from_le_bytes).collect())
    }
}
