//! The requests to a model server.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret, SecretString};

use super::{
    failure::Failure,
    request::Body,
    response::InferResponse,
    spec::RemoteSpec,
    wire::{ErrorBody, HEAD_LENGTH},
};
use facescan_outbound::tls;
use facescan_outbound::{self, Unread};

/// The maximum number of bytes that are read from an error response.
const ERROR_LIMIT: usize = 4 << 10;

/// The maximum number of characters that are reported from an error response.
const ERROR_CHARS: usize = 300;

/// A model on a server, with one pool of connections.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    server_ready: Url,
    model: Url,
    model_ready: Url,
    infer: Url,
    limit: usize,
}

impl Client {
    /// Creates a client that has not connected yet. It follows no redirect and uses no proxy, so the token and the
    /// images go only to the address in the settings.
    ///
    /// # Errors
    /// Returns a description of the fault if the token or the certificates cannot be used.
    pub fn new(spec: &RemoteSpec, token: Option<&SecretString>) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let text = SecretString::from(format!("Bearer {}", token.expose_secret()));
            let mut value = HeaderValue::from_str(text.expose_secret())
                .map_err(|_| "the token has characters that a header cannot carry".to_owned())?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let tls = tls::client_config();
        let http = facescan_outbound::client(tls.map_err(|error| error.to_string())?)
            .default_headers(headers)
            .retry(reqwest::retry::never())
            .connect_timeout(Duration::from_millis(spec.connect_timeout_ms))
            .build()
            .map_err(|error| error.to_string())?;
        let mut model = vec!["v2", "models", spec.model.as_str()];
        if let Some(version) = &spec.version {
            model.extend(["versions", version]);
        }
        let below = |last: &'static str| spec.url.at(model.iter().copied().chain([last]));
        Ok(Self {
            http,
            server_ready: spec.url.at(["v2", "health", "ready"]),
            model_ready: below("ready"),
            infer: below("infer"),
            model: spec.url.at(model.iter().copied()),
            limit: spec.max_response_bytes,
        })
    }

    /// Checks that the server and the model are ready. Returns the server's description of the model.
    pub async fn metadata(&self) -> Result<Bytes, Failure> {
        self.get(&self.server_ready).await?;
        self.get(&self.model_ready).await?;
        self.get(&self.model).await
    }

    async fn get(&self, url: &Url) -> Result<Bytes, Failure> {
        let response = self.http.get(url.clone()).send().await;
        let response = response.map_err(|error| Failure::before_response(&error))?;
        read(checked(response).await?, self.limit).await
    }

    /// Runs the model once. `traceparent` is the header that names the span of the run.
    pub async fn infer(
        &self,
        body: Body,
        traceparent: Option<HeaderValue>,
    ) -> Result<InferResponse, Failure> {
        let mut request = self
            .http
            .post(self.infer.clone())
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(HEAD_LENGTH, body.head_len);
        if let Some(traceparent) = traceparent {
            request = request.header("traceparent", traceparent);
        }
        let response = request
            .body(body.bytes)
            .send()
            .await
            .map_err(|error| Failure::before_response(&error))?;
        let response = checked(response).await?;
        let head_len = match response.headers().get(HEAD_LENGTH) {
            None => None,
            Some(value) => Some(
                number(value)
                    .ok_or_else(|| Failure::Malformed(format!("its {HEAD_LENGTH} is no number")))?,
            ),
        };
        Ok(InferResponse {
            head_len,
            bytes: read(response, self.limit).await?,
        })
    }
}

/// Parses a number that consists of digits only. Rust also accepts `+5`, but HTTP does not.
fn number<T: std::str::FromStr>(value: &HeaderValue) -> Option<T> {
    let text = value.to_str().ok()?;
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

/// Returns a response with the status 200, or the reason for another one.
async fn checked(mut response: Response) -> Result<Response, Failure> {
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(response);
    }
    let retry_after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(number)
        .map(Duration::from_secs);
    let mut body = Vec::new();
    // If the explanation cannot be read, it is left out: the status is enough.
    while body.len() < ERROR_LIMIT
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk[..chunk.len().min(ERROR_LIMIT - body.len())]);
    }
    Err(Failure::Status {
        status,
        detail: said(&body),
        retry_after,
    })
}

/// Returns the server's explanation of an error, on one line.
fn said(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => body.error,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(ERROR_CHARS)
        .collect()
}

/// Returns a body of at most `limit` bytes.
async fn read(response: Response, limit: usize) -> Result<Bytes, Failure> {
    let whole = facescan_outbound::read(response, limit as u64).await;
    whole.map_err(|unread| match unread {
        Unread::TooLarge => Failure::TooLarge { limit },
        Unread::BrokeOff(error) => Failure::in_response(&error),
    })
}
