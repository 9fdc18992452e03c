//! A model on a remote server. Its rows go through an engine like the rows of any other model, but it has no CPU
//! fallback.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use facescan_pipeline::models::loaded::LoadedModel;
use facescan_telemetry::metrics::Metrics;
use tokio::runtime::Handle;

use super::Loader;
use facescan_clock::Clock;
use facescan_inference::{
    backend::{
        BackendError, Batch, Session,
        kserve::{Kserve, RemoteContext, RemoteSpec},
    },
    device::{Active, Assignment},
    device_task::DeviceTask,
    engine::{DeviceParts, Engine, EngineParts, Sessions},
    placement::{DevicePlacement, Precision, Provider},
    proof::{self, Proof, SelfTest, Tolerance},
    registry::ModelSpec,
    tensor::{Signature, Tensor},
};

/// The number of rows whose outputs are stored, to check later that the server still runs the same model.
const KNOWN_ROWS: usize = 2;

/// The extra time that a run may take beyond its own time limit. Normally the limit ends the run first.
const GRACE: Duration = Duration::from_secs(5);

/// Stands in for the CPU sessions, which a remote model does not have.
struct Away {
    signature: Signature,
}

impl Session for Away {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, _batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        Err(BackendError::unavailable(
            "the remote model server is unavailable",
        ))
    }
}

/// Logs the server's message and address and hides them from callers, because every caller sees a device's faults.
struct Discreet(Box<dyn Session>);

impl Session for Discreet {
    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        let rows = batch.rows();
        self.0.run(batch).map_err(|error| {
            tracing::warn!(%error, rows, "a run of the remote model failed");
            let detail = "the model server failed; see the log for the reason".to_owned();
            match error {
                BackendError::OutOfMemory(_) => BackendError::OutOfMemory(detail),
                _ => BackendError::Run(detail),
            }
        })
    }
}

/// A remote model that passed its self-test.
struct Connected {
    kserve: Kserve,
    session: Box<dyn Session>,
    self_test: SelfTest,
    proof: Proof,
}

impl Connected {
    /// Connects to the server of a model. Checks that the server has the registry's model and runs it.
    async fn to(
        spec: &ModelSpec,
        remote: &RemoteSpec,
        metrics: &Metrics,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let token = remote
            .token(|name| std::env::var(name).ok())
            .map_err(anyhow::Error::msg)?;
        let context = RemoteContext::new(Handle::current(), metrics.remote(&remote.model), token);
        let mut kserve = Kserve::open(remote, context).await?;
        spec.check_signature(kserve.signature())?;
        let only = kserve.signature().outputs.first();
        let read = spec.output.clone().or(only.map(|port| port.name.clone()));
        kserve.read_only(read.as_deref().unwrap_or_default());
        let mut session = kserve.session();
        let (row_shape, clock) = (spec.input.row_shape(), Arc::clone(clock));
        let rows = spec.batch.fixed().map_or(KNOWN_ROWS, NonZeroUsize::get);
        // Runs block this thread, and the async runtime must send and receive at the same time.
        let proving = move || -> Result<_, BackendError> {
            let tolerance = Tolerance::of(Precision::Full);
            let self_test = SelfTest::record(session.as_mut(), &row_shape, rows, tolerance)?;
            let proof = proof::prove(session.as_mut(), &self_test, clock.as_ref())?;
            Ok((session, self_test, proof))
        };
        let (session, self_test, proof) = tokio::task::spawn_blocking(proving).await??;
        tracing::info!(
            model = spec.id, device = %PLACEMENT, server = %remote.url, version = kserve.version(),
            row_ms = proof.row_ms, "model loaded"
        );
        Ok(Self {
            kserve,
            session,
            self_test,
            proof,
        })
    }
}

const PLACEMENT: DevicePlacement = DevicePlacement::first(Provider::Kserve, Precision::Full);

impl Loader<'_> {
    /// Connects to the server of a remote model and starts its engine.
    ///
    /// # Errors
    /// Returns an error if the server fails, or does not have the registry's model.
    pub(in crate::app) async fn load_remote(
        &self,
        spec: &ModelSpec,
        remote: &RemoteSpec,
        task: DeviceTask,
    ) -> anyhow::Result<(LoadedModel, Assignment)> {
        let connected = Connected::to(spec, remote, self.metrics, self.clock).await;
        let connected = connected.with_context(|| format!("model {}, field remote", spec.id))?;
        let signature = connected.kserve.signature().clone();
        let kserve = Mutex::new(connected.kserve);
        let grouping = self.grouping(spec.batch.fixed(), PLACEMENT);
        let active = Active {
            placement: PLACEMENT,
            health: self.health(grouping.max_rows.get()),
            proof: connected.proof,
        };
        let parts = DeviceParts {
            placement: PLACEMENT,
            open: Arc::new(move || -> Result<Box<dyn Session>, BackendError> {
                let mut kserve = kserve.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Box::new(Discreet(kserve.session())))
            }),
            session: Box::new(Discreet(connected.session)),
            grouping,
            health: Arc::clone(&active.health),
            self_test: Arc::new(connected.self_test),
            run_timeout: remote.timeout() + GRACE,
            // A remote model has no CPU session to repeat a row on.
            check_every: None,
            must_be_finite: false,
        };
        let assignment = Assignment {
            task,
            requested: PLACEMENT.to_string(),
            device: Ok(active),
            cpu: DevicePlacement::CPU,
            cpu_proof: None,
        };
        let engine = Engine::start(EngineParts {
            sessions: Sessions::own(vec![Box::new(Away { signature })]),
            grouping,
            device: Some(parts),
            usual_row_len: spec.input.row_shape().iter().product(),
            pool: Arc::clone(self.pool),
            clock: Arc::clone(self.clock),
            metrics: self.metrics.engine(task.name()),
        });
        self.metrics.watch_queue(task.name(), engine.queue_depth());
        let model = LoadedModel {
            spec: Arc::new(spec.clone()),
            engine,
            long: None,
        };
        Ok((model, assignment))
    }
}
