//! `facescan worker`, and the worker of `facescan serve`.

use std::{net::SocketAddr, process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Args;
use facescan_batches::{webhooks::deliveries::Deliveries, worker::Worker};
use facescan_config::Config;
use futures::future::BoxFuture;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    runtime::{parts, run_to_shutdown, start_telemetry, success_if},
    serve,
};
use crate::{
    app::{App, Parts},
    http::{self, error::describe_item},
    lifecycle::Ending,
};

/// The chunks of a worker process if `batches.workers` is 0.
const DEFAULT_CHUNKS: usize = 2;

/// The background tasks of batches.
pub(super) struct BatchTasks {
    app: Arc<App>,
    tasks: Vec<JoinHandle<()>>,
}

impl BatchTasks {
    /// Starts a task, which ends when the token is cancelled.
    fn spawn<F>(&mut self, task: impl FnOnce(Arc<App>, CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.app.lifecycle.stop_token();
        let task: BoxFuture<'static, ()> = Box::pin(task(Arc::clone(&self.app), stop));
        self.tasks.push(tokio::spawn(task));
    }

    /// Waits until all tasks have stopped. They stop when the lifecycle does.
    pub(super) async fn stopped(self) {
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of batches ended early");
            }
        }
    }
}

/// Starts to process `chunks` chunks of a tenant at a time, and to delete what is no longer needed.
pub(super) fn start(app: &Arc<App>, chunks: usize) -> BatchTasks {
    let mut tasks = BatchTasks {
        app: Arc::clone(app),
        tasks: Vec::new(),
    };
    tasks.spawn(|app, stop| async move { app.batches.sweep_until(stop).await });
    tasks.spawn(|app, stop| async move {
        stop.run_until_cancelled(app.batches.queue.run()).await;
    });
    tasks.spawn(|app, stop| {
        let deliveries = Deliveries::new(app.batches.clone(), Arc::new(fastrand::f64));
        deliveries.run(stop)
    });
    tasks.spawn(|app, stop| async move { app.erasures.sweep_until(stop).await });
    tasks.spawn(|app, stop| async move { app.retention.sweep_until(stop).await });
    tasks.spawn(|app, stop| async move { app.collections.sweep_until(&app.metrics, stop).await });
    tasks.spawn(|app, stop| async move { app.collections.cluster_until(&app.metrics, stop).await });
    if let Some(heads) = app.audit_heads.clone() {
        tasks.spawn(|_, stop| async move { heads.publish_until(stop).await });
    }
    if chunks > 0 {
        tasks.spawn(|app, stop| {
            let random = Arc::new(fastrand::f64);
            let worker = Worker::new(app.batches.clone(), worker_name(), describe_item, random);
            worker.run(chunks, stop)
        });
    }
    tasks
}

/// Returns a name that tells which process has a lease.
fn worker_name() -> String {
    let host = sysinfo::System::host_name().unwrap_or_default();
    format!("{host}/{}", std::process::id())
}

/// The arguments of `facescan worker`.
#[derive(Debug, Default, Args)]
pub struct WorkerArgs {
    /// The chunks of a tenant to process at a time, and half of those that tenants with several share. The default is
    /// `batches.workers`, or 2 if that is 0.
    #[arg(long, value_name = "N")]
    pub chunks: Option<usize>,
    /// Serve /livez, /readyz and /metrics at this address, such as 0.0.0.0:9464. The default is `metrics.address`.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
}

/// Listens for the requests of probes and Prometheus, if there is an address. The future serves them.
pub(super) async fn listen(
    app: &Arc<App>,
    address: Option<SocketAddr>,
) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let listener = match address {
        None => None,
        Some(address) => Some(
            TcpListener::bind(address)
                .await
                .with_context(|| format!("listening on {address}"))?,
        ),
    };
    let app = Arc::clone(app);
    Ok(async move {
        if let Some(listener) = listener {
            let stopped = app.lifecycle.stopped();
            http::serve_metrics(listener, app, stopped).await;
        }
    })
}

/// Processes the items of batches until a signal arrives.
///
/// # Errors
/// Returns an error if the start fails.
pub fn run(config: Config, args: &WorkerArgs) -> anyhow::Result<ExitCode> {
    run_on(config, parts, args)
}

/// Processes the items of batches with the parts that `open` returns until a signal arrives.
///
/// # Errors
/// The errors of [`run`].
pub fn run_on(
    config: Config,
    open: impl FnOnce(&Config) -> anyhow::Result<Parts>,
    args: &WorkerArgs,
) -> anyhow::Result<ExitCode> {
    let _traces = start_telemetry(&config)?;
    let parts = open(&config)?;
    run_to_shutdown(async {
        let deadline = config.server.shutdown_timeout_ms.duration();
        let chunks = args.chunks.unwrap_or(match config.batches.workers {
            0 => DEFAULT_CHUNKS,
            workers => workers,
        });
        let app = Arc::new(parts.start(config).await?);
        serve::prepare_store(&app).await;
        tracing::info!(chunks, "processing batches");
        let forced = serve::stop_at_signal(app.lifecycle.clone(), "returning the chunks");
        let tasks = start(&app, chunks);
        let lifecycle = app.lifecycle.clone();
        let health = listen(&app, args.listen.or(app.config.metrics.address)).await?;
        let work = async {
            tokio::join!(health, tasks.stopped());
        };
        let ending = lifecycle.drive(work, deadline, forced).await;
        serve::close_store(&app).await;
        Ok(success_if(ending == Ending::Clean))
    })
}
