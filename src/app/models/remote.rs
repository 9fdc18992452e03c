//! A model that a remote server runs: its rows go through an engine like any other's, and have no CPU to fall back to.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use tokio::runtime::Handle;

use super::{Loaded, Loader, OnDevice};
use crate::telemetry::metrics::Metrics;
use facescan_clock::Clock;
use facescan_inference::{
    backend::{
        BackendError, Batch, Session,
        kserve::{Kserve, RemoteContext, RemoteSpec},
    },
    device::Assignment,
    engine::{DeviceParts, Engine, EngineParts, Sessions},
    operation::Operation,
    placement::{DevicePlacement, Precision, Provider},
    proof::{self, Proof, SelfTest, Tolerance},
    registry::ModelSpec,
    tensor::{Signature, Tensor},
};

/// Rows that the server's answers are remembered of, to tell later whether it still runs the same model.
const KNOWN_ROWS: usize = 2;

/// What a run may take beyond its own limit, which ends it first.
const GRACE: Duration = Duration::from_secs(5);

/// Stands where the sessions of other models on the CPU do.
struct Away {
    signature: Signature,
}

impl Session for Away {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, _batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        Err(BackendError::Unavailable {
            detail: "the remote model server is away".to_owned(),
        })
    }
}

/// Keeps what the server says, and where it is, to the log: a device's faults are told to every caller.
struct Discreet(Box<dyn Session>);

impl Discreet {
    fn around(session: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(Self(session))
    }
}

impl Session for Discreet {
    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        let rows = batch.rows();
        self.0.run(batch).map_err(|error| {
            tracing::warn!(%error, rows, "a run of the remote model failed");
            let detail = "the model server failed; the log says how".to_owned();
            match error {
                BackendError::OutOfMemory { .. } => BackendError::OutOfMemory { detail },
                _ => BackendError::Run { detail },
            }
        })
    }
}

/// A remote model that has answered.
pub(in crate::app) struct Connected {
    kserve: Kserve,
    session: Box<dyn Session>,
    self_test: SelfTest,
    proof: Proof,
    run_timeout: Duration,
}

impl Connected {
    /// Asks the server of an entry, where it names one, whether it has the model that the registry means, and runs it.
    pub async fn of(
        spec: &ModelSpec,
        metrics: &Metrics,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Option<Self>> {
        match &spec.remote {
            Some(remote) => Self::to(spec, remote, metrics, clock)
                .await
                .with_context(|| format!("model {}, field remote", spec.id))
                .map(Some),
            None => Ok(None),
        }
    }

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
        // Runs block, and the runtime has to send and read meanwhile.
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
            run_timeout: remote.timeout() + GRACE,
        })
    }
}

const PLACEMENT: DevicePlacement = DevicePlacement {
    provider: Provider::Kserve,
    index: 0,
    precision: Precision::Full,
};

impl Loader<'_> {
    /// Starts the engine of a remote model.
    pub(super) fn load_remote(
        &self,
        spec: &ModelSpec,
        connected: Connected,
        operation: Operation,
    ) -> Loaded {
        let signature = connected.kserve.signature().clone();
        let kserve = Mutex::new(connected.kserve);
        let grouping = self.grouping(spec.batch.fixed(), PLACEMENT);
        let parts = DeviceParts {
            placement: PLACEMENT,
            open: Arc::new(move || {
                let mut kserve = kserve.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Discreet::around(kserve.session()))
            }),
            session: Discreet::around(connected.session),
            grouping,
            health: self.health(grouping.max_rows.get()),
            self_test: Arc::new(connected.self_test),
            run_timeout: connected.run_timeout,
            // There is nothing here to repeat a row on.
            check_every: None,
            must_be_finite: false,
        };
        let assignment = Assignment {
            operation,
            requested: PLACEMENT.to_string(),
            device: Ok(parts.active(connected.proof)),
            cpu: DevicePlacement::CPU,
            cpu_proof: None,
        };
        let engine = Engine::start(EngineParts {
            sessions: Sessions {
                per_worker: vec![Box::new(Away { signature })],
                all_cores: None,
                replacement: None,
                placement: DevicePlacement::CPU,
            },
            grouping,
            device: Some(parts),
            usual_row_len: spec.input.row_shape().iter().product(),
            pool: Arc::clone(self.pool),
            clock: Arc::clone(self.clock),
            metrics: self.metrics.engine(operation.name()),
        });
        self.metrics
            .watch_queue(operation.name(), engine.queue_depth());
        Loaded {
            spec: Arc::new(spec.clone()),
            engine,
            assignment,
        }
    }
}
