//! Where the heads of the audit trail go, as the settings say.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context;
use facescan_audit::{
    heads::{HeadPublisher, destination::HeadDestination},
    key::AuditKey,
};
use facescan_batches::payloads::open_bucket;
use facescan_clock::Clock;
use facescan_config::Config;
use facescan_outbound::tls;
use facescan_store::Store;
use facescan_telemetry::metrics::Metrics;
use url::Url;

/// The time limit of one delivery over HTTP.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Returns what delivers the heads. `None` if the settings name no destination.
///
/// # Errors
/// Returns an error if the destination cannot be used.
pub(super) fn open(
    config: &Config,
    store: &Store,
    (clock, metrics): (&Arc<dyn Clock>, &Metrics),
) -> anyhow::Result<Option<Arc<HeadPublisher>>> {
    let Some(url) = config.audit.heads_url() else {
        return Ok(None);
    };
    let key = AuditKey::new(config.audit.secret.as_ref());
    if key.is_none() {
        tracing::warn!(
            "audit.heads is set and audit.secret is not, so the heads are not signed: whoever can write to their place can replace them"
        );
    }
    Ok(Some(Arc::new(HeadPublisher {
        store: store.clone(),
        destination: destination(url).context("opening audit.heads")?,
        key,
        clock: Arc::clone(clock),
        metrics: metrics.clone(),
        period: config.audit.heads_period(),
        delivered: Mutex::default(),
    })))
}

fn destination(url: Url) -> anyhow::Result<HeadDestination> {
    Ok(match url.scheme() {
        "file" => {
            let path = url.to_file_path().ok();
            HeadDestination::File(path.context("the URL has no path")?)
        }
        "http" | "https" => {
            let client = facescan_outbound::client(tls::client_config()?);
            let client = client.timeout(TIMEOUT).build()?;
            HeadDestination::Http { client, url }
        }
        _ => HeadDestination::Objects(open_bucket(&url)?),
    })
}
