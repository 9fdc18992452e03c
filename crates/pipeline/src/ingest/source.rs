//! One image as the caller sent it.

use std::io::{self, Read};

use base64::{
    DecodeError, Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    read::DecoderReader,
};
use bytes::Bytes;

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
#[derive(Clone, Debug)]
pub enum Content {
    /// The encoded bytes.
    Bytes(Bytes),
    /// The URL to fetch the image from, as the caller wrote it.
    Url(String),
}

impl ImageInput {
    /// Creates an image from its bytes alone.
    pub fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Content::from_bytes(bytes))
    }

    /// Creates an image from what a body has: its bytes or its URL, and not both.
    pub fn from_sources(data: Option<Payload>, url: Option<String>) -> Self {
        Self::new(match (data, url) {
            (Some(_), Some(_)) => Err(IngestError::TwoSources),
            (Some(payload), None) => payload.into_bytes().and_then(Content::from_bytes),
            (None, Some(url)) => Ok(Content::Url(url)),
            (None, None) => Err(IngestError::NoSource),
        })
    }

    /// Creates an image from its URL alone.
    pub fn from_url(url: String) -> Self {
        Self::new(Ok(Content::Url(url)))
    }

    /// Returns whether the bytes must be fetched.
    pub fn is_fetched(&self) -> bool {
        matches!(self.content, Ok(Content::Url(_)))
    }

    fn new(content: Result<Content, IngestError>) -> Self {
        Self {
            id: None,
            source: None,
            source_url: None,
            content,
        }
    }
}

impl Content {
    fn from_bytes(bytes: Bytes) -> Result<Self, IngestError> {
        if bytes.is_empty() {
            return Err(IngestError::Empty);
        }
        Ok(Self::Bytes(bytes))
    }
}

/// The bytes of an image in a body: base64, perhaps with a `data:` prefix, or binary in msgpack. Base64 is decoded while the body is
/// read, so that the body and the bytes are the only copies.
#[derive(Debug)]
pub struct Payload(Result<Bytes, IngestError>);

impl Payload {
    /// Decodes base64. This is CPU work.
    pub fn from_text(text: &str) -> Self {
        Self(decode(text).map(Bytes::from))
    }

    /// Copies the bytes.
    pub fn from_binary(bytes: &[u8]) -> Self {
        Self(Ok(Bytes::copy_from_slice(bytes)))
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// Returns [`IngestError::NotBase64`] or [`IngestError::NotBase64Url`] if the text is not base64.
    pub fn into_bytes(self) -> Result<Bytes, IngestError> {
        self.0
    }
}

fn decode(text: &str) -> Result<Vec<u8>, IngestError> {
    let encoded = without_data_prefix(text)?.as_bytes();
    if !encoded.iter().any(u8::is_ascii_whitespace) {
        return Ok(BASE64.decode(encoded)?);
    }
    let mut decoded = Vec::with_capacity(encoded.len() / 4 * 3);
    DecoderReader::new(WithoutWhitespace(encoded), &BASE64)
        .read_to_end(&mut decoded)
        .map_err(|error| match error.downcast::<DecodeError>() {
            Ok(error) => error.into(),
            // The reader is memory, so its only errors are those of base64.
            Err(_) => IngestError::NotBase64Url,
        })?;
    Ok(decoded)
}

/// Reads base64 that is broken into lines.
struct WithoutWhitespace<'a>(&'a [u8]);

impl Read for WithoutWhitespace<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.0.trim_ascii_start();
        let line = rest.iter().position(u8::is_ascii_whitespace);
        let length = line.unwrap_or(rest.len()).min(buffer.len());
        let (read, rest) = rest.split_at(length);
        buffer[..length].copy_from_slice(read);
        self.0 = rest;
        Ok(length)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<Bytes, IngestError> {
        Payload::from_text(text).into_bytes()
    }

    #[test]
    fn base64_may_have_a_prefix_line_breaks_and_no_padding() {
        for text in [
            "aGVsbG8=",
            "aGVsbG8",
            "data:image/png;base64,aGVsbG8=",
            "DATA:image/png;BASE64,aGVsbG8=",
            "aGVs\r\nbG8=\n",
            " a G\tVsb\n\nG8",
        ] {
            assert_eq!(decoded(text).unwrap(), "hello", "{text}");
        }
    }

    #[test]
    fn invalid_base64_is_an_error_of_one_image() {
        for text in ["no base64!", "base64!", "a\nb!", "data:image/png,abc"] {
            assert!(
                matches!(
                    decoded(text),
                    Err(IngestError::NotBase64(_) | IngestError::NotBase64Url)
                ),
                "{text}"
            );
        }
    }
}
