//! What requests of ours to other servers have in common: those for callers' URLs, and those to model servers.

pub mod tls;

use std::{error::Error as StdError, io, iter};

use bytes::{Bytes, BytesMut};
use reqwest::{ClientBuilder, Response, redirect::Policy};
use rustls::ClientConfig;

/// A client that asks the address it is given and no other: whoever follows a redirect judges it first, and a proxy of the
/// environment would look names up itself, and see what is sent. No address is told to the next one.
pub fn client(tls: ClientConfig) -> ClientBuilder {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
}

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// It has more bytes than are read.
    #[error("the body is larger than the limit")]
    TooLarge,
    /// It ends early, or is none.
    #[error(transparent)]
    BrokeOff(#[from] reqwest::Error),
}

/// Reads a body of at most `limit` bytes, whatever the answer says of its length.
///
/// # Errors
/// When it is larger or does not come whole.
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
            // All of it in one piece, which need not be copied.
            return Ok(part);
        }
        if whole.is_empty() {
            // Only now, so that a length without bytes takes no memory.
            let stated = stated.and_then(|stated| usize::try_from(stated).ok());
            whole.reserve(part.len().max(stated.unwrap_or(0)));
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// An error and its causes, the last of which says what happened. That of an I/O error lies in it and not under it.
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
