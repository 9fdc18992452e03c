//! A client of a running server, for the commands about batches and collections.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::Args;
use facescan_outbound::tls;
use reqwest::{Method, RequestBuilder, Response, StatusCode, header::RETRY_AFTER};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::files::Found;

/// The attempts of a request while the server is busy or cannot be reached.
const ATTEMPTS: u32 = 6;

/// The longest wait before a request is repeated.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The server to talk to.
#[derive(Clone, Debug, Args)]
pub struct ServerArgs {
    /// The address of the server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: Url,
    /// The key of the API, if the server needs one.
    #[arg(long, value_name = "KEY", env = "FACESCAN_KEY", hide_env_values = true)]
    key: Option<SecretString>,
}

/// Images, and the collection of a server that they are for.
#[derive(Debug, Args)]
pub struct CollectionArgs {
    /// Images, folders or URLs.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// The id of the collection.
    #[arg(long, value_name = "ID")]
    pub collection: Uuid,
}

impl CollectionArgs {
    pub fn path(&self) -> String {
        format!("/collections/{}", self.collection)
    }
}

/// Sends requests to a server.
pub struct Client {
    http: reqwest::Client,
    args: ServerArgs,
}

impl Client {
    /// Creates a client. It connects to nothing yet.
    pub fn new(args: &ServerArgs) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::client_config()?)
            .build()
            .context("building the HTTP client")?;
        let args = args.clone();
        Ok(Self { http, args })
    }

    /// Begins a request to a path with a query.
    pub fn request(&self, method: Method, path: &str) -> anyhow::Result<RequestBuilder> {
        let base = self.args.server.as_str().trim_end_matches('/');
        let url: Url = format!("{base}{path}")
            .parse()
            .context("the path of a request")?;
        let request = self.http.request(method, url);
        Ok(match &self.args.key {
            None => request,
            Some(key) => request.bearer_auth(key.expose_secret()),
        })
    }

    /// Sends a request. Repeats it while the server is busy or cannot be reached. `request` makes the request anew.
    ///
    /// # Errors
    /// Returns an error with the server's code and text if it refuses the request.
    pub async fn send(
        &self,
        request: impl Fn() -> anyhow::Result<RequestBuilder>,
    ) -> anyhow::Result<Response> {
        let mut wait = Duration::from_millis(500);
        for attempt in 1.. {
            let failure = match request()?.send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => {
                    let is_busy = [
                        StatusCode::TOO_MANY_REQUESTS,
                        StatusCode::SERVICE_UNAVAILABLE,
                        StatusCode::BAD_GATEWAY,
                        StatusCode::GATEWAY_TIMEOUT,
                    ]
                    .contains(&response.status());
                    if let Some(asked) = retry_after(&response) {
                        wait = asked;
                    }
                    let problem = problem(response).await;
                    if !is_busy {
                        return Err(problem);
                    }
                    problem
                }
                Err(error) => anyhow::Error::new(error)
                    .context(format!("{} does not answer", self.args.server)),
            };
            if attempt == ATTEMPTS {
                return Err(failure);
            }
            tokio::time::sleep(wait.min(MAX_WAIT)).await;
            wait = (wait * 2).min(MAX_WAIT);
        }
        bail!("the request was not sent")
    }

    /// Sends a JSON body and parses the response.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = || Ok(self.request(Method::POST, path)?.json(body));
        let response = self.send(request).await?;
        response.json().await.context("parsing the response")
    }

    /// Asks for a list as JSON lines.
    pub async fn lines(&self, path: &str) -> anyhow::Result<Response> {
        self.send(|| {
            let request = self.request(Method::GET, path)?;
            Ok(request.header("accept", "application/x-ndjson"))
        })
        .await
    }

    /// Sends a request without a body and parses the response.
    pub async fn json(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let response = self.send(|| self.request(method.clone(), path)).await?;
        let text = response.text().await.context("reading the response")?;
        match text.is_empty() {
            true => Ok(Value::Null),
            false => serde_json::from_str(&text).context("parsing the response"),
        }
    }
}

pub fn path_with(path: &str, query: &[(&str, String)]) -> String {
    let pairs = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query)
        .finish();
    format!("{path}?{pairs}")
}

/// Parses a JSON object of the command line.
///
/// # Errors
/// Returns an error if the text is anything else.
pub fn json_object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("must be a JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the entry of a file or URL in a JSON body.
pub async fn image_entry(found: &Found) -> anyhow::Result<Value> {
    if let Some(reason) = &found.unreadable {
        bail!("{reason}");
    }
    if let Some(url) = &found.url {
        return Ok(json!({"url": url}));
    }
    let bytes = tokio::fs::read(&found.path).await?;
    Ok(json!({"data": BASE64_STANDARD.encode(bytes)}))
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// A server refuses a request.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub status: StatusCode,
    /// The server's code and text.
    text: String,
}

impl Refusal {
    /// Returns whether the image of the request is refused, and not every request like it.
    pub fn is_of_the_image(&self) -> bool {
        let statuses = [
            StatusCode::CONFLICT,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::UNPROCESSABLE_ENTITY,
        ];
        statuses.contains(&self.status)
    }
}

/// Returns the error of a response, with the server's code and text.
async fn problem(response: Response) -> anyhow::Error {
    let status = response.status();
    let body: Value = response.json().await.unwrap_or_default();
    let text = match (body["code"].as_str(), body["detail"].as_str()) {
        (Some(code), Some(detail)) => format!("{code}: {detail}"),
        _ => format!("the server answered with the status {status}"),
    };
    Refusal { status, text }.into()
}
