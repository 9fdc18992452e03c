//! Reads the keys of an issuer over HTTP.

use std::time::Duration;

use facescan_outbound::{read, tls};
use jsonwebtoken::jwk::JwkSet;
use serde::{Deserialize, de::DeserializeOwned};
use url::Url;

/// The time limit of a request to the issuer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The largest document of an issuer, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Why the keys of the issuer cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the keys of the issuer cannot be read: {0}")]
pub struct JwksError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The keys of an issuer at an address.
pub struct WebJwks {
    client: reqwest::Client,
    issuer: Url,
    /// The address of the keys. `None` if the issuer's own document names it.
    jwks_url: Option<Url>,
}

/// The part of an issuer's document that is needed (OpenID Connect Discovery 1.0, section 3).
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: Url,
}

impl WebJwks {
    /// Creates a client. It makes no request.
    ///
    /// # Errors
    /// Returns an error if the trusted certificates cannot be used.
    pub fn new(issuer: Url, jwks_url: Option<Url>) -> anyhow::Result<Self> {
        let client = facescan_outbound::client(tls::client_config()?);
        Ok(Self {
            client: client.timeout(TIMEOUT).build()?,
            issuer,
            jwks_url,
        })
    }

    async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, JwksError> {
        let response = self.client.get(url).send().await.map_err(failed)?;
        let response = response.error_for_status().map_err(failed)?;
        let body = read(response, MAX_BYTES).await.map_err(failed)?;
        serde_json::from_slice(&body).map_err(failed)
    }

    /// Returns the keys that the issuer publishes now.
    ///
    /// # Errors
    /// Returns an error if the issuer does not answer with keys.
    pub(super) async fn read(&self) -> Result<JwkSet, JwksError> {
        let address = self.address().await?;
        self.get(address).await
    }

    /// Returns the address of the keys.
    async fn address(&self) -> Result<Url, JwksError> {
        if let Some(url) = &self.jwks_url {
            return Ok(url.clone());
        }
        let issuer = self.issuer.as_str().trim_end_matches('/');
        let document = format!("{issuer}/.well-known/openid-configuration");
        let document = Url::parse(&document).map_err(failed)?;
        let found: Discovery = self.get(document).await?;
        if found.issuer.trim_end_matches('/') != issuer {
            return Err(failed("the document of the issuer names another issuer"));
        }
        Ok(found.jwks_uri)
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> JwksError {
    JwksError(error.into())
}
