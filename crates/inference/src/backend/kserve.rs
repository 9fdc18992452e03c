//! Models on a remote server: the Open Inference Protocol (KServe v2) over HTTP with binary tensors, as Triton
//! implements it.

use std::{
    fmt::Display,
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

mod blocking;
mod client;
mod failure;
mod metadata;
mod request;
mod response;
mod retry;
mod session;
mod spec;
mod wire;

/// What a connection needs besides its settings.
pub struct RemoteContext {
    /// The async runtime that sends and reads.
    pub runtime: Handle,
    /// Counts runs.
    pub metrics: Arc<dyn RemoteMetrics>,
    /// The bearer token, from [`RemoteSpec::token`].
    pub token: Option<SecretString>,
    /// The source of the random part of the pauses between attempts.
    pub rng: fastrand::Rng,
    /// The pause before the first retry. Half of it is random, and it doubles each time. Zero in tests.
    pub first_pause: Duration,
}

impl RemoteContext {
    /// Creates the context with the usual random numbers and pauses.
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

/// A remote model that is ready.
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
    /// The number of runs that have started. It is the id of the next run.
    runs: AtomicU64,
}

impl Remote {
    fn describe(&self, failure: &Failure) -> String {
        describe(&self.model, &self.server, failure)
    }
}

fn describe(model: &str, server: &BaseUrl, failure: impl Display) -> String {
    format!("the model `{model}` on {server}: {failure}")
}

impl Kserve {
    /// Checks that the server and the model are ready, and requests the model's inputs and outputs.
    /// [`ModelSpec::check_signature`](crate::registry::ModelSpec::check_signature) checks those.
    ///
    /// # Errors
    /// Returns [`BackendError::Unavailable`] if the server or the model cannot be used. The error says why.
    pub async fn open(spec: &RemoteSpec, context: RemoteContext) -> Result<Self, BackendError> {
        spec.check()
            .map_err(|(field, reason)| format!("remote.{field}: {reason}"))
            .map_err(BackendError::Unavailable)?;
        if context.token.is_some() && !spec.url.is_private() {
            tracing::warn!(server = %spec.url, "the token is sent in clear; use an https address");
        }
        let client = Client::new(spec, context.token.as_ref()).map_err(|detail| {
            BackendError::Unavailable(describe(&spec.model, &spec.url, detail))
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
            .map_err(|failure| {
                BackendError::Unavailable(describe(&spec.model, &spec.url, failure))
            })?;
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

    /// Requests only one output from now on, because others may be large or have another type. Call it before a session
    /// is opened.
    pub fn read_only(&mut self, output: &str) {
        if let Some(remote) = Arc::get_mut(&mut self.remote) {
            remote
                .described
                .signature
                .outputs
                .retain(|port| port.name == output);
        }
    }

    /// Returns the model's inputs and outputs, as its server reports them.
    pub fn signature(&self) -> &Signature {
        &self.remote.described.signature
    }

    /// Returns the version that every response comes from: the one in the settings, or the only one that the server
    /// had. Returns `None` if the version is not known. The server may then change it without notice.
    pub fn version(&self) -> Option<&str> {
        self.remote.described.version.as_deref()
    }

    /// Returns a session. Its runs block, so it needs a thread of its own. All sessions share the connections.
    pub fn session(&mut self) -> Box<dyn Session> {
        Box::new(RemoteSession {
            remote: Arc::clone(&self.remote),
            rng: self.rng.fork(),
        })
    }
}
