//! Runs of a remote model, for the thread that owns the session.

use std::sync::{Arc, atomic::Ordering};

use super::{
    Remote,
    blocking::{self, NOT_RUN},
    failure::Failure,
    request::{self, Body},
    response::{ExpectedResponse, InferResponse},
};
use crate::{
    backend::{BackendError, Batch, Session},
    tensor::{Signature, Tensor},
};

/// A session of a remote model. Any number of sessions share the connections.
pub(super) struct RemoteSession {
    pub remote: Arc<Remote>,
    pub rng: fastrand::Rng,
}

impl Session for RemoteSession {
    fn signature(&self) -> &Signature {
        &self.remote.described.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        let outcome = self.outputs(batch);
        self.remote
            .metrics
            .ran(outcome.as_ref().err().map_or("ok", Failure::name));
        outcome.map_err(|failure| {
            let detail = self.remote.describe(&failure);
            // The engine divides a batch that a device has no memory for.
            if batch.rows() > 1 && failure.may_be_of_the_size() {
                BackendError::OutOfMemory(detail)
            } else {
                BackendError::Run(detail)
            }
        })
    }
}

impl RemoteSession {
    /// Builds the request and reads the response on this thread. The async runtime's threads only send and receive.
    fn outputs(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, Failure> {
        let remote = Arc::clone(&self.remote);
        let id = (remote.runs.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        let body = request::encoded(&id, &remote.described.signature, batch)?;
        let response = self.response(body)?;
        response.outputs(ExpectedResponse {
            id: &id,
            model: &remote.model,
            version: remote.described.version.as_deref(),
            rows: batch.rows(),
            signature: &remote.described.signature,
        })
    }

    fn response(&mut self, body: Body) -> Result<InferResponse, Failure> {
        let (remote, rng) = (Arc::clone(&self.remote), self.rng.fork());
        let traceparent = remote.metrics.traceparent();
        let runs = async move {
            let repeating = |failure: &Failure| {
                remote.metrics.retried(failure.name());
                tracing::warn!(model = %remote.model, server = %remote.server, %failure, "the remote run is repeated");
            };
            let request = || remote.client.infer(body.clone(), traceparent.clone());
            remote.policy.run(rng, repeating, request).await
        };
        blocking::wait(&self.remote.runtime, self.remote.policy.timeout, runs).unwrap_or_else(
            || {
                Err(Failure::Connection {
                    detail: NOT_RUN.to_owned(),
                    may_pass: false,
                })
            },
        )
    }
}
