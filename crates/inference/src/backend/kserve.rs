//! Models that a remote server runs: the Open Inference Protocol (KServe v2) over HTTP, with binary tensors, as Triton
//! speaks it.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use secrecy::SecretString;
use tokio::runtime::Handle;

use super::{BackendError, Session};
use crate::metrics::RemoteMetrics;
use crate::tensor::Signature;
use client::Client;
use failure::Failure;
use metadata::Described;
use retry::{FIRST_PAUSE, Policy};
use session::RemoteSession;
pub use spec::{BaseUrl, RemoteSpec};

mod answer;
mod blocking;
mod client;
mod failure;
mod metadata;
mod request;
mod retry;
mod session;
mod spec;
mod wire;

/// What a connection needs besides its settings.
pub struct RemoteContext {
    /// The runtime that sends and reads.
    pub runtime: Handle,
    /// Where runs are counted.
    pub metrics: Arc<dyn RemoteMetrics>,
    /// The bearer token; [`RemoteSpec::token`] finds it.
    pub token: Option<SecretString>,
    /// Where the chance in the pauses between repeats comes from.
    pub rng: fastrand::Rng,
    /// The pause before the first repeat, half of it by chance; it doubles each time. Zero where a test wants none.
    pub first_pause: Duration,
}

impl RemoteContext {
    /// The usual ones.
    pub fn new(
        runtime: Handle,
        metrics: Arc<dyn RemoteMetrics>,
        token: Option<SecretString>,
    ) -> Self {
        Self {
            runtime,
            metrics,
            token,
            rng: fastrand::Rng::new(),
            first_pause: FIRST_PAUSE,
        }
    }
}

/// A remote model that is there.
pub struct Kserve {
    remote: Arc<Remote>,
    rng: fastrand::Rng,
}

/// What the sessions of a remote model share.
struct Remote {
    client: Client,
    policy: Policy,
    runtime: Handle,
    described: Described,
    metrics: Arc<dyn RemoteMetrics>,
    model: String,
    server: BaseUrl,
    /// How many runs were begun; each has its number as its id.
    runs: AtomicU64,
}

impl Remote {
    fn told(&self, failure: &Failure) -> String {
        told(&self.model, &self.server, failure)
    }
}

fn told(model: &str, server: &BaseUrl, failure: &Failure) -> String {
    format!("the model `{model}` on {server}: {failure}")
}

impl Kserve {
    /// Checks that the server and the model are ready, and asks for the model's inputs and outputs. What they have to be
    /// is for [`ModelSpec::check_signature`](crate::registry::ModelSpec::check_signature) to say.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] with what is missing.
    pub async fn open(spec: &RemoteSpec, context: RemoteContext) -> Result<Self, BackendError> {
        let unavailable = |detail| BackendError::Unavailable { detail };
        spec.check()
            .map_err(|(field, reason)| unavailable(format!("remote.{field}: {reason}")))?;
        if context.token.is_some() && !spec.url.is_private() {
            tracing::warn!(server = %spec.url, "the token is sent in clear; use an https address");
        }
        let client = Client::new(spec, context.token.as_ref()).map_err(|detail| {
            unavailable(format!(
                "the model `{}` on {}: {detail}",
                spec.model, spec.url
            ))
        })?;
        let policy = Policy {
            retries: spec.retries,
            timeout: spec.timeout(),
            first_pause: context.first_pause,
        };
        let mut rng = context.rng;
        let described = policy
            .run(rng.fork(), |_| (), || client.metadata())
            .await
            .and_then(|json| metadata::described(spec, &json))
            .map_err(|failure| unavailable(told(&spec.model, &spec.url, &failure)))?;
        tracing::info!(model = %spec.model, server = %spec.url, version = described.version, "the remote model is ready");
        Ok(Self {
            remote: Arc::new(Remote {
                client,
                policy,
                runtime: context.runtime,
                described,
                metrics: context.metrics,
                model: spec.model.clone(),
                server: spec.url.clone(),
                runs: AtomicU64::new(0),
            }),
            rng,
        })
    }

    /// Asks for one output alone from now on, before any session is opened: others may be large, or of another type.
    pub fn read_only(&mut self, output: &str) {
        if let Some(remote) = Arc::get_mut(&mut self.remote) {
            remote
                .described
                .signature
                .outputs
                .retain(|port| port.name == output);
        }
    }

    /// The model's inputs and outputs, as its server says.
    pub fn signature(&self) -> &Signature {
        &self.remote.described.signature
    }

    /// The version that every answer comes from: the one in the settings, or the only one that the server had. Without
    /// either it is not known, and the server may change it unseen.
    pub fn version(&self) -> Option<&str> {
        self.remote.described.version.as_deref()
    }

    /// A session for a thread of its own: its runs block. All sessions share the connections.
    pub fn session(&mut self) -> Box<dyn Session> {
        Box::new(RemoteSession {
            remote: Arc::clone(&self.remote),
            rng: self.rng.fork(),
        })
    }
}
