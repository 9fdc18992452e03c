//! Parses bodies where they hold nobody up.

use std::sync::Arc;

use facescan_fields::{FieldError, FieldErrors, wording};
use facescan_imaging::format::{Sniffed, sniff};
use facescan_inference::pool::Stage;
use rmp_serde::decode;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::body::MAX_NESTING;
use crate::http::{AppState, error::ApiError};

/// Larger bodies are parsed on threads of their own, because they would hold a thread of the CPU pool for too long.
const LARGE_BODY: usize = 4 << 20;

/// Runs `job`, which reads `bytes` bytes of a tenant, on the CPU pool, or on another thread if it takes long.
///
/// # Errors
/// The error of `job`, or [`ApiError::Internal`] if it panics.
pub(super) async fn parse<T, F>(
    state: &AppState,
    tenant: Arc<str>,
    bytes: usize,
    job: F,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, ApiError> + Send + 'static,
{
    if bytes <= LARGE_BODY {
        let pool = &state.pipeline.pool;
        return pool.run_for(Some(tenant), Stage::Begin, job).await?;
    }
    let turn = state.admission.large_body(&tenant).await;
    let parsed = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        job()
    });
    parsed
        .await
        .map_err(|error| ApiError::Internal(error.to_string()))?
}

/// The beginning of the error of a list that is too long. The errors of serde have only a text.
pub(super) const TOO_MANY: &str = "the list is too long";

/// Why a body cannot be read.
#[derive(Debug)]
pub(super) enum ParseError {
    /// It is not of its format.
    Syntax(String),
    /// A field has a value that it cannot have.
    Field(FieldError),
}

impl From<ParseError> for ApiError {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Syntax(detail) => Self::invalid_body(detail),
            ParseError::Field(error) => FieldErrors::from(error).into(),
        }
    }
}

pub(super) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ParseError> {
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        match error.inner().classify() {
            Category::Data => ParseError::Field(wording::field_error(
                error.path(),
                &wording::data_message(error.inner()),
            )),
            Category::Io | Category::Syntax | Category::Eof => syntax_error(error.inner()),
        }
    })?;
    parser.end().map_err(|error| syntax_error(&error))?;
    Ok(read)
}

fn syntax_error(error: &serde_json::Error) -> ParseError {
    ParseError::Syntax(format!(
        "it is not valid JSON: {}",
        wording::json_error(error)
    ))
}

pub(super) fn from_packed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ParseError> {
    let mut parser = rmp_serde::Deserializer::from_read_ref(bytes);
    parser.set_max_depth(MAX_NESTING);
    serde_path_to_error::deserialize(&mut parser).map_err(|error| match error.inner() {
        decode::Error::Syntax(message) => {
            ParseError::Field(wording::field_error(error.path(), message))
        }
        decode::Error::TypeMismatch(_) | decode::Error::OutOfRange => {
            ParseError::Field(wording::field_error(error.path(), &"invalid type: "))
        }
        decode::Error::InvalidMarkerRead(_) | decode::Error::InvalidDataRead(_) => {
            ParseError::Syntax("the msgpack ends too early; send all of it".to_owned())
        }
        decode::Error::DepthLimitExceeded => {
            ParseError::Syntax("the msgpack is nested too deeply".to_owned())
        }
        _ => ParseError::Syntax("it is not valid msgpack".to_owned()),
    })
}

/// Checks that a body begins like an object. Says what it is otherwise, because clients mix up the bytes and their type.
pub(super) fn check_is_object(body: &[u8], is_json: bool) -> Result<(), ApiError> {
    let first = match is_json {
        true => body.trim_ascii_start().first(),
        false => body.first(),
    };
    let is_object = match (first, is_json) {
        (Some(first), true) => *first == b'{',
        // The maps of msgpack.
        (Some(first), false) => matches!(first, 0x80..=0x8F | 0xDE | 0xDF),
        (None, _) => return Err(ApiError::invalid_body("it is empty; send an object")),
    };
    if is_object {
        return Ok(());
    }
    let name = if is_json { "JSON" } else { "msgpack" };
    Err(ApiError::invalid_body(match sniff(body) {
        Sniffed::Accepted(format) => format!(
            "it is a {format} file and the content-type says {name}; send it with the content-type image/{format}"
        ),
        Sniffed::Other(_) | Sniffed::Unknown => format!("it is not a {name} object"),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The database stores metadata as JSON. A deeper tree could be stored and never read again.
    #[test]
    fn msgpack_is_as_deep_as_json_and_not_deeper() {
        for (depth, is_read) in [(126, true), (127, true), (128, false), (1000, false)] {
            let packed = [vec![0x91; depth], vec![0xC0]].concat();
            let tree = from_packed::<Value>(&packed);
            assert_eq!(tree.is_ok(), is_read, "{depth}");
            let text = format!("{}null{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(
                serde_json::from_str::<Value>(&text).is_ok(),
                is_read,
                "{depth}"
            );
        }
    }
}
