//! Fetches over the network within the rules of the [`Guard`].

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use facescan_config::Urls;
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, LOCATION},
};
use tokio::time::timeout;
use url::Url;

use super::{FetchError, Fetcher, Lookup, guarded_client};
use crate::ingest::guard::{Guard, Refused};
use facescan_outbound::{self, Unread, causes};

/// The accepted formats. For `image/*`, some servers would send AVIF, which is not supported.
const FORMATS: HeaderValue = HeaderValue::from_static(
    "image/jpeg, image/png, image/webp, image/gif, image/bmp, image/tiff, */*;q=0.1",
);

/// Fetches URLs over HTTP and HTTPS.
pub struct WebFetcher {
    client: Client,
    guard: Arc<Guard>,
    timeout: Duration,
    max_redirects: usize,
}

impl WebFetcher {
    /// Creates a fetcher with the rules and limits of the settings. It connects to nothing yet.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(urls: &Urls, lookup: Arc<dyn Lookup>) -> anyhow::Result<Self> {
        let (client, guard) = guarded_client(urls, lookup)?;
        let headers = [
            (ACCEPT, FORMATS),
            // Forbids compression, so that one limit bounds both the bytes that are sent and the bytes that are kept.
            (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
        ];
        // This type follows redirects itself and checks each target like the first URL.
        let client = client
            .default_headers(HeaderMap::from_iter(headers))
            .build()
            .context("building the HTTP client")?;
        Ok(Self {
            client,
            guard,
            timeout: urls.timeout_ms.duration(),
            max_redirects: urls.max_redirects,
        })
    }

    async fn follow(&self, url: &Url, limit: u64) -> Result<Bytes, FetchError> {
        self.guard.check(url)?;
        let mut response = self.ask(url).await?;
        for _ in 0..self.max_redirects {
            let Some(next) = target(&response)? else {
                return read(response, limit).await;
            };
            // The reason would reveal the target of the redirect.
            self.guard.check(&next).map_err(|_| Refused::Redirect)?;
            response = self.ask(&next).await?;
        }
        match target(&response)? {
            Some(_) => Err(FetchError::TooManyRedirects {
                limit: self.max_redirects,
            }),
            None => read(response, limit).await,
        }
    }

    async fn ask(&self, url: &Url) -> Result<Response, FetchError> {
        let answered = self.client.get(url.clone()).send().await;
        answered.map_err(|error| {
            let reason = reason(&error);
            // The path and query of a URL may contain a key, so the log has only the host.
            tracing::debug!(host = url.host_str(), error = ?error.without_url(), "fetching a url failed");
            reason
        })
    }
}

#[async_trait]
impl Fetcher for WebFetcher {
    async fn fetch(&self, url: &Url, limit: u64) -> Result<Bytes, FetchError> {
        let fetched = timeout(self.timeout, self.follow(url, limit)).await;
        fetched.unwrap_or(Err(FetchError::TimedOut {
            limit_ms: self.timeout.as_millis(),
        }))
    }
}

fn reason(error: &reqwest::Error) -> FetchError {
    if causes(error).any(|cause| cause.is::<Refused>()) {
        FetchError::NotPublic
    } else if causes(error).any(|cause| cause.is::<rustls::Error>()) {
        FetchError::Untrusted
    } else if error.is_timeout() || error.is_connect() {
        FetchError::Unreachable
    } else {
        FetchError::BrokeOff
    }
}

/// Returns the target if the response is a redirect.
fn target(response: &Response) -> Result<Option<Url>, FetchError> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    if !redirects {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION);
    let location = location.and_then(|value| value.to_str().ok());
    let next = location.and_then(|text| response.url().join(text).ok());
    next.map(Some).ok_or(FetchError::BadRedirect)
}

async fn read(response: Response, limit: u64) -> Result<Bytes, FetchError> {
    if response.status() != StatusCode::OK {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    let encoding = response.headers().get(CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(FetchError::Encoded);
    }
    let whole = facescan_outbound::read(response, limit).await;
    whole.map_err(|unread| match unread {
        Unread::TooLarge => FetchError::TooLarge { limit },
        Unread::BrokeOff(_) => FetchError::BrokeOff,
    })
}

#[cfg(test)]
mod tests;
