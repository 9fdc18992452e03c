//! Sends messages to addresses that callers chose, within the rules of the [`Guard`].

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use facescan_config::Urls;
use http::{HeaderMap, StatusCode};
use reqwest::Client;
use url::Url;

use super::{
    fetch::{Lookup, guarded_client},
    guard::{Guard, Refused},
};

/// The time limit of one message.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Sends messages over HTTP.
#[async_trait]
pub trait Poster: Send + Sync {
    /// Checks an address that a message is sent to later. The addresses of a name are checked when it is sent.
    ///
    /// # Errors
    /// Returns the reason if the rules forbid the address.
    fn check(&self, url: &Url) -> Result<(), Refused>;

    /// Posts a body.
    ///
    /// # Errors
    /// Returns the reason if the server does not answer with a status from 200 to 299.
    async fn post(&self, url: &Url, headers: HeaderMap, body: Bytes) -> Result<(), PostError>;
}

/// Why a message was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The rules forbid the address.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The server cannot be reached or does not answer in time.
    #[error("the server cannot be reached")]
    Unreachable,
    /// The server answered with another status.
    #[error("the server answered with the status {0}")]
    Status(u16),
}

impl PostError {
    /// Returns whether the server says that it never wants a message again.
    pub fn is_final(self) -> bool {
        self == Self::Status(StatusCode::GONE.as_u16())
    }
}

/// Sends messages over the network.
pub struct WebPoster {
    client: Client,
    guard: Arc<Guard>,
}

impl WebPoster {
    /// Creates a poster with the rules of section `urls`. It connects to nothing yet.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(urls: &Urls, lookup: Arc<dyn Lookup>) -> anyhow::Result<Self> {
        let (client, guard) = guarded_client(urls, lookup)?;
        let client = client
            .timeout(TIMEOUT)
            .build()
            .context("building the HTTP client of webhooks")?;
        Ok(Self { client, guard })
    }
}

#[async_trait]
impl Poster for WebPoster {
    fn check(&self, url: &Url) -> Result<(), Refused> {
        self.guard.check(url)
    }

    async fn post(&self, url: &Url, headers: HeaderMap, body: Bytes) -> Result<(), PostError> {
        self.guard.check(url)?;
        let request = self.client.post(url.clone()).headers(headers).body(body);
        // The client follows no redirect, so a redirect is a status like any other.
        match request.send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(PostError::Status(response.status().as_u16())),
            Err(error) => {
                tracing::debug!(host = url.host_str(), error = ?error.without_url(), "a webhook was not delivered");
                Err(PostError::Unreachable)
            }
        }
    }
}
