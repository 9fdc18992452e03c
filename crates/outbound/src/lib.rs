//! HTTP requests to other servers: image URLs from callers, and model servers.

pub mod tls;

use std::{error::Error as StdError, io, iter};

use bytes::{Bytes, BytesMut};
use reqwest::{ClientBuilder, Response, redirect::Policy};
use rustls::ClientConfig;

/// Returns a builder for a client that connects only to the address that it is given.
///
/// The client follows no redirects, so that the caller can check the target of a redirect first. It uses no proxy,
/// because a proxy resolves names itself and sees the requests. It sends no `Referer` header.
pub fn client(tls: ClientConfig) -> ClientBuilder {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
}

/// The reason why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The body has more bytes than the limit.
    #[error("the body is larger than the limit")]
    TooLarge,
    /// The body is missing or ends early.
    #[error(transparent)]
    BrokeOff(#[from] reqwest::Error),
}

/// Reads the body of a response, up to `limit` bytes.
///
/// The function counts the bytes that arrive, so a missing or wrong `Content-Length` header does not bypass the limit.
///
/// # Errors
/// Returns [`Unread::TooLarge`] if the body is larger than `limit`, and [`Unread::BrokeOff`] if it cannot be read
/// completely.
pub async fn read(mut response: Response, limit: u64) -> Result<Bytes, Unread> {
    let stated = response.content_length();
    if stated.is_some_and(|stated| stated > limit) {
        return Err(Unread::TooLarge);
    }
    let mut whole = BytesMut::new();
    while let Some(part) = response.chunk().await? {
        if (whole.len() + part.len()) as u64 > limit {
            return Err(Unread::TooLarge);
        }
        if stated == Some(part.len() as u64) {
            // The body arrived in one piece, so it is not copied.
            return Ok(part);
        }
        if whole.is_empty() {
            // The buffer is allocated after the first bytes arrive, so that a header alone allocates no memory.
            let stated = stated.and_then(|stated| usize::try_from(stated).ok());
            whole.reserve(part.len().max(stated.unwrap_or(0)));
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// Returns an iterator over an error and its causes. The last item is the root cause.
///
/// An I/O error does not return the error inside it as its source. The iterator reads that error with
/// [`io::Error::get_ref`].
pub fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(Some(error), |&error| {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outside")]
    struct Outside(#[source] io::Error);

    #[test]
    fn what_lies_in_an_io_error_is_one_of_the_causes() {
        let inside = rustls::Error::General("inside".to_owned());
        let error = Outside(io::Error::other(inside));
        assert_eq!(causes(&error).count(), 3);
        let last = causes(&error).last();
        assert!(last.is_some_and(|cause| cause.is::<rustls::Error>()));
    }
}
