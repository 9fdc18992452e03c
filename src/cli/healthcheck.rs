//! `facescan healthcheck`: checks whether the server is ready.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use facescan_config::Config;

use super::runtime::{success_if, tokio_runtime};
use facescan_outbound::tls;

/// The time limit for the response of the server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends a request to `/readyz`.
pub fn run(config: &Config, url: Option<String>) -> anyhow::Result<ExitCode> {
    let url = url.unwrap_or_else(|| own_address(config));
    let url = format!("{}/readyz", url.trim_end_matches('/'));
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls::client_config()?)
        .timeout(PATIENCE)
        .no_proxy()
        .build()
        .context("building the HTTP client")?;
    let answered = tokio_runtime()?.block_on(async {
        let response = client.get(&url).send().await?;
        let status = response.status();
        Ok::<_, reqwest::Error>((status, response.text().await?))
    });
    match answered {
        Ok((status, body)) => {
            writeln!(io::stdout(), "{body}")?;
            Ok(success_if(status.is_success()))
        }
        Err(error) => {
            eprintln!("error: {url} does not answer: {error}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Returns the address for probes. That of the metrics has neither TLS nor access control.
fn own_address(config: &Config) -> String {
    match config.metrics.address {
        Some(address) => {
            let host = address.ip().to_string();
            format!("http://{}:{}", reachable(&host), address.port())
        }
        None => server_address(config),
    }
}

/// Returns the address of the server that the settings describe.
pub(super) fn server_address(config: &Config) -> String {
    let server = &config.server;
    let (scheme, host) = (server.scheme(), reachable(&server.host));
    format!("{scheme}://{host}:{}", server.port)
}

/// Returns the address to connect to. For a server that listens on every address it is the loopback address.
fn reachable(host: &str) -> String {
    match host {
        "0.0.0.0" => "127.0.0.1".to_owned(),
        "::" => "[::1]".to_owned(),
        host if host.contains(':') => format!("[{host}]"),
        host => host.to_owned(),
    }
}
