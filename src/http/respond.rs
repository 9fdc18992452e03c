//! Writes answers as JSON or msgpack, whichever the caller accepts.

use axum::{
    http::{
        HeaderMap, HeaderValue,
        header::{ACCEPT, CONTENT_TYPE, VARY},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::{
    config::EnhancedFormat,
    error::Error,
    pool::{CpuPool, Stage},
};

/// How the caller wants the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// JSON, also when nothing is said.
    Json,
    /// msgpack with named fields.
    Msgpack,
    /// The picture itself, where there is one; in this format, when one was named.
    Picture(Option<EnhancedFormat>),
    /// The tensor itself, as NumPy's `.npy`.
    Npy,
}

impl Accepted {
    /// Reads the `Accept` header (RFC 9110, 12.5.1) where the answer is a tree: of the types that it can be written in,
    /// the one with the highest weight, and the first of several.
    pub fn tree(headers: &HeaderMap) -> Self {
        Self::of(headers, |accepted| {
            matches!(accepted, Self::Json | Self::Msgpack)
        })
    }

    /// The same where the answer may also be a picture.
    pub fn picture_or_tree(headers: &HeaderMap) -> Self {
        Self::of(headers, |accepted| *accepted != Self::Npy)
    }

    /// The same where the answer may also be a picture or a tensor.
    pub fn any(headers: &HeaderMap) -> Self {
        Self::of(headers, |_| true)
    }

    fn of(headers: &HeaderMap, can_be_given: impl Fn(&Self) -> bool) -> Self {
        let ranges = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        let mut best = (0.0, Self::Json);
        for range in ranges {
            let mut parts = range.split(';').map(str::trim);
            let known = parts
                .next()
                .and_then(Self::from_range)
                .filter(&can_be_given);
            let weight = parts
                .find_map(|part| part.strip_prefix("q="))
                .map_or(Ok(1.0), str::parse::<f32>)
                .unwrap_or(0.0);
            if let Some(accepted) = known
                && weight > best.0
            {
                best = (weight, accepted);
            }
        }
        best.1
    }

    fn from_range(range: &str) -> Option<Self> {
        match range {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            "application/msgpack" | "application/x-msgpack" | "application/vnd.msgpack" => {
                Some(Self::Msgpack)
            }
            "application/x-npy" => Some(Self::Npy),
            "image/*" => Some(Self::Picture(None)),
            "image/jpeg" => Some(Self::Picture(Some(EnhancedFormat::Jpeg))),
            "image/png" => Some(Self::Picture(Some(EnhancedFormat::Png))),
            "image/webp" => Some(Self::Picture(Some(EnhancedFormat::Webp))),
            _ => None,
        }
    }
}

/// Milliseconds as a header, to the microsecond.
pub fn milliseconds(milliseconds: f64) -> HeaderValue {
    HeaderValue::from_str(&format!("{milliseconds:.3}")).unwrap_or(HeaderValue::from_static("0"))
}

/// Serialises `answer` on the CPU pool, because vectors and pictures make it large.
///
/// # Errors
/// [`Error::Internal`] when it cannot be serialised.
pub async fn respond<T: Serialize + Send + 'static>(
    accepted: Accepted,
    pool: &CpuPool,
    answer: T,
) -> Result<Response, Error> {
    let written = pool.run(Stage::Finish, move || write(accepted, &answer));
    Ok(response(accepted, written.await??))
}

/// Serialises an `answer` of a few kilobytes here and now: that takes less time than a way through the pool.
///
/// # Errors
/// [`Error::Internal`] when it cannot be serialised.
pub fn respond_small<T: Serialize>(accepted: Accepted, answer: &T) -> Result<Response, Error> {
    Ok(response(accepted, write(accepted, answer)?))
}

fn write<T: Serialize>(accepted: Accepted, answer: &T) -> Result<Vec<u8>, Error> {
    match accepted {
        Accepted::Msgpack => {
            rmp_serde::to_vec_named(answer).map_err(|error| Error::Internal(error.to_string()))
        }
        Accepted::Json | Accepted::Picture(_) | Accepted::Npy => {
            serde_json::to_vec(answer).map_err(|error| Error::Internal(error.to_string()))
        }
    }
}

fn response(accepted: Accepted, body: Vec<u8>) -> Response {
    let media_type = match accepted {
        Accepted::Msgpack => "application/msgpack",
        Accepted::Json | Accepted::Picture(_) | Accepted::Npy => "application/json",
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (VARY, HeaderValue::from_static("accept")),
    ];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(value: &'static str) -> Accepted {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(value));
        Accepted::picture_or_tree(&headers)
    }

    #[test]
    fn the_heaviest_type_that_can_be_given_wins() {
        assert_eq!(Accepted::tree(&HeaderMap::new()), Accepted::Json);
        for (header, expected) in [
            ("*/*", Accepted::Json),
            ("application/msgpack", Accepted::Msgpack),
            (
                "text/html, application/x-msgpack;q=0.9, */*;q=0.1",
                Accepted::Msgpack,
            ),
            ("application/msgpack;q=0, application/json", Accepted::Json),
            ("image/*;q=0.5, application/json;q=0.9", Accepted::Json),
            ("image/*", Accepted::Picture(None)),
            ("image/png", Accepted::Picture(Some(EnhancedFormat::Png))),
            ("text/plain", Accepted::Json),
        ] {
            assert_eq!(accepted(header), expected, "{header}");
        }
    }

    #[test]
    fn a_picture_is_no_choice_where_there_is_none() {
        let mut headers = HeaderMap::new();
        let accepted = "image/*, application/msgpack;q=0.5";
        headers.insert(ACCEPT, HeaderValue::from_static(accepted));
        assert_eq!(Accepted::tree(&headers), Accepted::Msgpack);
    }
}
