//! Outbound HTTP: what a URL answers, as bytes. The one implementation, besides those of tests, is [`web::WebFetcher`].

use async_trait::async_trait;
use bytes::Bytes;
use url::Url;

use super::guard::Refused;

mod resolve;
pub mod web;

pub use resolve::{Lookup, SystemLookup};

/// Fetches pictures. Dropping the future ends the fetch.
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// The bytes at a URL, `limit` of them at most.
    ///
    /// # Errors
    /// Why there are none.
    async fn fetch(&self, url: &Url, limit: u64) -> Result<Bytes, FetchError>;
}

/// Why a URL gave no picture. Callers read these texts, so that none says an address or where a redirect leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It is not to be fetched.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// It is no URL.
    #[error(
        "this is no url: send one such as https://example.com/a.jpg, of 4096 characters at most"
    )]
    NotAUrl,
    /// Its host has no address, or does not take the connection.
    #[error("the url's host cannot be reached: check the url, or try again later")]
    Unreachable,
    /// Its host cannot prove that it is the one.
    #[error("the certificate of the url's host is not trusted, or its tls is not understood")]
    Untrusted,
    /// It took too long.
    #[error("the url was not fetched within {limit_ms} ms: try again later")]
    TimedOut {
        /// The limit in milliseconds.
        limit_ms: u128,
    },
    /// It answered, but with no picture.
    #[error("the url answered with the status {0} and not 200: check the url")]
    Status(u16),
    /// A redirect whose target cannot be read.
    #[error("the url redirects to what is no url")]
    BadRedirect,
    /// One redirect after another.
    #[error("the url redirects more than {limit} times")]
    TooManyRedirects {
        /// The limit.
        limit: usize,
    },
    /// More bytes than a picture may have.
    #[error("the url gives more than {limit} bytes; the limit is that of one image")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Bytes in another form than they are.
    #[error("the url answers compressed, which was not asked for")]
    Encoded,
    /// The connection ended before the picture did.
    #[error("the connection to the url's host broke off: try again later")]
    BrokeOff,
}

impl FetchError {
    /// The name in metrics.
    pub fn outcome(self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::NotAUrl | Self::BadRedirect => "no_url",
            Self::Unreachable => "unreachable",
            Self::Untrusted => "untrusted",
            Self::TimedOut { .. } => "timed_out",
            Self::Status(_) => "status",
            Self::TooManyRedirects { .. } => "redirects",
            Self::TooLarge { .. } => "too_large",
            Self::Encoded => "encoded",
            Self::BrokeOff => "broke_off",
        }
    }
}
