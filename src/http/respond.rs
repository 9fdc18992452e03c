//! Writes answers as JSON or msgpack, whichever the caller accepts.

use axum::{
    http::{
        HeaderMap, HeaderValue,
        header::{ACCEPT, CONTENT_TYPE, VARY},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::{error::Error, imaging::pool::CpuPool};

/// How the caller wants the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// JSON, also when nothing is said.
    Json,
    /// msgpack with named fields.
    Msgpack,
    /// The picture itself, where there is one.
    Picture,
}

impl Accepted {
    /// Reads the `Accept` header: the first of its types that we can give.
    pub fn of(headers: &HeaderMap) -> Self {
        headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .find_map(
                |range| match range.split(';').next().unwrap_or_default().trim() {
                    "application/json" | "application/*" | "*/*" => Some(Self::Json),
                    "application/msgpack" | "application/x-msgpack" | "application/vnd.msgpack" => {
                        Some(Self::Msgpack)
                    }
                    range if range.starts_with("image/") => Some(Self::Picture),
                    _ => None,
                },
            )
            .unwrap_or(Self::Json)
    }
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
    let (media_type, body) = pool
        .run(move || match accepted {
            Accepted::Msgpack => rmp_serde::to_vec_named(&answer)
                .map(|body| ("application/msgpack", body))
                .map_err(|error| Error::Internal(error.to_string())),
            Accepted::Json | Accepted::Picture => serde_json::to_vec(&answer)
                .map(|body| ("application/json", body))
                .map_err(|error| Error::Internal(error.to_string())),
        })
        .await??;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (VARY, HeaderValue::from_static("accept")),
    ];
    Ok((headers, body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(value: &'static str) -> Accepted {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(value));
        Accepted::of(&headers)
    }

    #[test]
    fn the_first_type_that_can_be_given_wins() {
        assert_eq!(Accepted::of(&HeaderMap::new()), Accepted::Json);
        assert_eq!(accepted("*/*"), Accepted::Json);
        assert_eq!(accepted("application/msgpack"), Accepted::Msgpack);
        assert_eq!(
            accepted("text/html, application/x-msgpack;q=0.9, */*;q=0.1"),
            Accepted::Msgpack
        );
        assert_eq!(accepted("image/*"), Accepted::Picture);
        assert_eq!(accepted("text/plain"), Accepted::Json);
    }
}
