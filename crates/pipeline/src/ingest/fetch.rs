//! Outbound HTTP: fetches the bytes at a URL. [`web::WebFetcher`] is the implementation; tests have others.

use async_trait::async_trait;
use bytes::Bytes;
use url::Url;

use super::guard::Refused;

mod resolve;
pub mod web;

pub(super) use resolve::guarded_client;
pub use resolve::{Lookup, SystemLookup};

/// Fetches images. Dropping the future stops the fetch.
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// Fetches the bytes at a URL, at most `limit`.
    async fn fetch(&self, url: &Url, limit: u64) -> Result<Bytes, FetchError>;
}

/// Why a fetch failed. Callers read these texts, so they contain no address and no target of a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum FetchError {
    /// The rules forbid the fetch.
    #[error("{0}")]
    Refused(#[from] Refused),
    #[error(
        "this is not a url: send one such as https://example.com/a.jpg, of 4096 characters at most"
    )]
    NotAUrl,
    /// The host has no address or does not accept the connection.
    #[error("the url's host cannot be reached: check the url, or try again later")]
    Unreachable,
    /// The name of the host has an address that is not public. Callers cannot tell this from [`Unreachable`](Self::Unreachable),
    /// because the difference would tell them which names exist inside the network.
    #[error("the url's host cannot be reached: check the url, or try again later")]
    NotPublic,
    #[error("the certificate of the url's host is not trusted, or its tls is not understood")]
    Untrusted,
    #[error("the url was not fetched within {limit_ms} ms: try again later")]
    TimedOut { limit_ms: u128 },
    #[error("the url answered with the status {0} and not 200: check the url")]
    Status(u16),
    #[error("the url redirects to an invalid url")]
    BadRedirect,
    #[error("the url redirects more than {limit} times")]
    TooManyRedirects { limit: usize },
    #[error("the response of the url has more than {limit} bytes, the limit of one image")]
    TooLarge { limit: u64 },
    #[error("the response of the url is compressed, although the request forbids it")]
    Encoded,
    #[error(
        "the connection to the url's host ended before the response was complete: try again later"
    )]
    BrokeOff,
}

impl FetchError {
    /// Returns whether a later fetch of the same URL can succeed.
    pub fn is_temporary(self) -> bool {
        match self {
            Self::Unreachable | Self::NotPublic | Self::TimedOut { .. } | Self::BrokeOff => true,
            Self::Status(status) => status >= 500 || status == 429 || status == 408,
            Self::Refused(_)
            | Self::NotAUrl
            | Self::Untrusted
            | Self::BadRedirect
            | Self::TooManyRedirects { .. }
            | Self::TooLarge { .. }
            | Self::Encoded => false,
        }
    }

    /// Returns the name in metrics.
    pub fn outcome(self) -> &'static str {
        match self {
            Self::Refused(_) | Self::NotPublic => "refused",
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
