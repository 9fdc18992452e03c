//! A client of a running server, for the commands about batches and collections.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::Args;
use facescan_config::{Config, Sources};
use facescan_outbound::tls;
use reqwest::{Method, RequestBuilder, Response, StatusCode, header::RETRY_AFTER};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::{files::Found, healthcheck};

/// The attempts of a request while the server is busy or cannot be reached.
const ATTEMPTS: u32 = 6;

/// The longest wait before a request is repeated.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The server to talk to.
#[derive(Clone, Debug, Args)]
pub struct ServerArgs {
    /// The address of the server [default: that of the settings].
    #[arg(long, value_name = "URL", env = "FACESCAN_SERVER", value_parser = address)]
    server: Option<Url>,
    /// The key of the API, if the server needs one.
    #[arg(long, value_name = "KEY", env = "FACESCAN_KEY", hide_env_values = true)]
    key: Option<SecretString>,
}

/// Parses the address of a server. Without a scheme it is that of HTTP.
fn address(text: &str) -> Result<Url, String> {
    let url = match text.contains("://") {
        true => Url::parse(text),
        false => Url::parse(&format!("http://{text}")),
    };
    url.map_err(|error| format!("{error}; write http://HOST:PORT"))
}

/// Returns the address of the server that the settings of this machine describe.
fn configured_address(sources: &Sources) -> anyhow::Result<Url> {
    let (config, _) = Config::load(sources)?;
    let address = healthcheck::server_address(&config);
    address
        .parse()
        .with_context(|| format!("the address {address} of the settings"))
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
    server: Url,
    key: Option<SecretString>,
    /// Whether the server has answered. Until then, an address where nothing listens is taken for a wrong one.
    has_answered: AtomicBool,
}

impl Client {
    /// Creates a client of the server that the arguments name, or else the settings. It connects to nothing yet.
    pub fn new(args: &ServerArgs, sources: &Sources) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::client_config()?)
            .build()
            .context("building the HTTP client")?;
        let server = match &args.server {
            Some(server) => server.clone(),
            None => configured_address(sources)?,
        };
        Ok(Self {
            http,
            server,
            key: args.key.clone(),
            has_answered: AtomicBool::new(false),
        })
    }

    /// Begins a request to a path with a query.
    pub fn request(&self, method: Method, path: &str) -> anyhow::Result<RequestBuilder> {
        let base = self.server.as_str().trim_end_matches('/');
        let url: Url = format!("{base}{path}")
            .parse()
            .context("the path of a request")?;
        let request = self.http.request(method, url);
        Ok(match &self.key {
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
            let sent = request()?.send().await;
            if sent.is_ok() {
                self.has_answered.store(true, Ordering::Relaxed);
            }
            let failure = match sent {
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
                Err(error) if error.is_connect() && !self.has_answered.load(Ordering::Relaxed) => {
                    let cause = root_cause(&error);
                    let server = &self.server;
                    bail!(
                        "cannot reach a server at {server} ({cause}); start one with `facescan serve`, or name another address \
                         with --server or FACESCAN_SERVER"
                    );
                }
                Err(error) => {
                    anyhow::Error::new(error).context(format!("{} does not answer", self.server))
                }
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

/// Returns what the operating system said.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
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
