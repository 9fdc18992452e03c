//! Outbound HTTP: fetches the bytes at a URL. [`web::WebFetcher`] is the implementation; tests have others. Every address of a host
//! is checked before a connection to it.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use facescan_config::Urls;
use facescan_outbound::tls;
use reqwest::{
    ClientBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
};
use url::Url;

use super::guard::{Guard, Refused};

pub mod web;

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

/// Resolves host names.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Returns all addresses of a host.
    ///
    /// # Errors
    /// Returns an error if the host has no address.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// The resolver of the HTTP client. It resolves a name once and checks every address, and the client connects only to
/// these addresses. No second look-up can return another address.
struct Guarded {
    lookup: Arc<dyn Lookup>,
    guard: Arc<Guard>,
}

/// Returns the builder of a client for hosts that callers choose, and the guard that checks them.
pub(super) fn guarded_client(
    urls: &Urls,
    lookup: Arc<dyn Lookup>,
) -> Result<(ClientBuilder, Arc<Guard>), rustls::Error> {
    let guard = Arc::new(Guard::new(urls));
    let resolver = Guarded {
        lookup,
        guard: Arc::clone(&guard),
    };
    let client = facescan_outbound::client(tls::client_config()?)
        .dns_resolver(Arc::new(resolver))
        // Callers choose the hosts, so the number of idle connections would have no bound.
        .pool_max_idle_per_host(0)
        .connect_timeout(urls.connect_timeout())
        .user_agent(&urls.user_agent);
    Ok((client, guard))
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, guard) = (Arc::clone(&self.lookup), Arc::clone(&self.guard));
        Box::pin(async move {
            let found = lookup.addresses(name.as_str()).await?;
            if found.is_empty() {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            // One refused address refuses the name. An honest public host has no such address among its addresses.
            for address in &found {
                guard.check_address(*address)?;
            }
            // The client replaces port 0 with the port of the URL.
            let addresses: Addrs = Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}
