//! One image as the caller sent it.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, de};

use crate::ingest::error::IngestError;

/// Standard base64, with or without its padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An image or the error that replaces it. An unreadable image never fails the other images of the request.
#[derive(Debug)]
pub struct ImageInput {
    /// The caller's id for the image.
    pub id: Option<String>,
    /// The caller's name for the origin of the image. It overrides the request's.
    pub source: Option<String>,
    /// The address where the image was found. It overrides the request's.
    pub source_url: Option<String>,
    /// The bytes or the URL of the image.
    pub content: Result<Content, IngestError>,
}

/// The bytes or the URL of an image.
#[derive(Debug)]
pub enum Content {
    /// The encoded bytes.
    Bytes(Bytes),
    /// The URL to fetch the image from, as the caller wrote it.
    Url(String),
}

impl ImageInput {
    /// Creates an image from its bytes alone.
    pub fn from_bytes(bytes: Bytes) -> Self {
        Self::of(Content::Bytes(bytes))
    }

    /// Creates an image from its URL alone.
    pub fn from_url(url: String) -> Self {
        Self::of(Content::Url(url))
    }

    /// Returns whether the bytes must be fetched.
    pub fn is_fetched(&self) -> bool {
        matches!(self.content, Ok(Content::Url(_)))
    }

    fn of(content: Content) -> Self {
        Self {
            id: None,
            source: None,
            source_url: None,
            content: Ok(content),
        }
    }
}

/// An image in a JSON or msgpack body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageEntry {
    /// The caller's id for the image.
    #[serde(default)]
    pub id: Option<String>,
    /// The bytes: base64 text, or binary in msgpack.
    #[serde(default)]
    pub data: Option<Payload>,
    /// A URL to fetch the image from, instead of `data`. It needs `urls.enabled` in the server's settings.
    #[serde(default)]
    pub url: Option<String>,
    /// The caller's name for the origin of the image.
    #[serde(default)]
    pub source: Option<String>,
    /// The address where the image was found. The default is `url`.
    #[serde(default)]
    pub source_url: Option<String>,
}

impl From<ImageEntry> for ImageInput {
    fn from(entry: ImageEntry) -> Self {
        let content = match (entry.data, entry.url) {
            (Some(_), Some(_)) => Err(IngestError::TwoSources),
            (Some(payload), None) => payload.into_bytes().map(Content::Bytes),
            (None, Some(url)) => Ok(Content::Url(url)),
            (None, None) => Err(IngestError::NoSource),
        };
        Self {
            id: entry.id,
            source: entry.source,
            source_url: entry.source_url,
            content,
        }
    }
}

/// The bytes of an image in the form that a body carries them.
#[derive(Debug)]
pub enum Payload {
    /// Base64, perhaps with a `data:` prefix.
    Text(String),
    /// The bytes themselves.
    Binary(Vec<u8>),
}

impl Payload {
    /// Returns the bytes. Decoding base64 is CPU work.
    ///
    /// # Errors
    /// Returns [`IngestError::NotBase64`] or [`IngestError::NotBase64Url`] if the text is not base64.
    pub fn into_bytes(self) -> Result<Bytes, IngestError> {
        let text = match self {
            Self::Binary(bytes) => return Ok(bytes.into()),
            Self::Text(text) => text,
        };
        let encoded = without_data_prefix(&text)?;
        let decoded = if encoded.bytes().any(|byte| byte.is_ascii_whitespace()) {
            let joined: Vec<u8> = encoded
                .bytes()
                .filter(|byte| !byte.is_ascii_whitespace())
                .collect();
            BASE64.decode(joined)
        } else {
            BASE64.decode(encoded)
        };
        Ok(decoded.map(Bytes::from)?)
    }
}

/// Returns the base64 part of a text that may be a `data:` URL. The scheme and `;base64` may be of any case (RFC 2397,
/// RFC 3986).
fn without_data_prefix(text: &str) -> Result<&str, IngestError> {
    if !text
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
    {
        return Ok(text);
    }
    text.split_once(',')
        .filter(|(head, _)| head.to_ascii_lowercase().ends_with(";base64"))
        .map(|(_, encoded)| encoded)
        .ok_or(IngestError::NotBase64Url)
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Payload;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("base64 text or binary data")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Payload, E> {
                Ok(Payload::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Payload, E> {
                Ok(Payload::Text(text))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Payload, E> {
                Ok(Payload::Binary(bytes.to_vec()))
            }

            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Payload, E> {
                Ok(Payload::Binary(bytes))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<Bytes, IngestError> {
        Payload::Text(text.to_owned()).into_bytes()
    }

    #[test]
    fn base64_may_have_a_prefix_line_breaks_and_no_padding() {
        for text in [
            "aGVsbG8=",
            "aGVsbG8",
            "data:image/png;base64,aGVsbG8=",
            "DATA:image/png;BASE64,aGVsbG8=",
            "aGVs\r\nbG8=\n",
        ] {
            assert_eq!(decoded(text).unwrap(), "hello", "{text}");
        }
    }

    #[test]
    fn invalid_base64_is_an_error_of_one_image() {
        for text in ["no base64!", "data:image/png,abc"] {
            assert!(
                matches!(
                    decoded(text),
                    Err(IngestError::NotBase64(_) | IngestError::NotBase64Url)
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn an_entry_has_one_source_or_an_error() {
        let entry = |json: &str| {
            ImageInput::from(serde_json::from_str::<ImageEntry>(json).unwrap()).content
        };
        assert!(matches!(
            entry(r#"{"data":"aGVsbG8="}"#),
            Ok(Content::Bytes(bytes)) if bytes == "hello"
        ));
        assert!(matches!(
            entry(r#"{"url":"https://example.org/a.jpg"}"#),
            Ok(Content::Url(url)) if url == "https://example.org/a.jpg"
        ));
        assert!(matches!(entry("{}"), Err(IngestError::NoSource)));
        assert!(matches!(
            entry(r#"{"data":"","url":"x"}"#),
            Err(IngestError::TwoSources)
        ));
    }
}
