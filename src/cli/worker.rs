//! `facescan worker`, and the worker of `facescan serve`.

use std::{process::ExitCode, sync::Arc};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    runtime::{start_app, start_logs, tokio_runtime},
    serve,
};
use crate::{
    app::App, batches::worker::Worker, config::Config, http::error::describe_item,
    lifecycle::Ending,
};

/// The chunks of a worker process if `batches.workers` is 0.
const DEFAULT_CHUNKS: usize = 2;

/// The background tasks of batches.
pub(super) struct BatchTasks {
    tasks: Vec<JoinHandle<()>>,
}

impl BatchTasks {
    /// Waits until all tasks have stopped. They stop when the lifecycle does.
    pub(super) async fn stopped(self) {
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of batches ended early");
            }
        }
    }
}

/// Starts to process `chunks` chunks at a time, and to delete what is no longer needed.
pub(super) fn start(app: &Arc<App>, chunks: usize) -> BatchTasks {
    let stop = CancellationToken::new();
    let mut tasks = Vec::new();
    tasks.push(tokio::spawn({
        let (stopped, stop) = (app.lifecycle.stopped(), stop.clone());
        async move {
            stopped.await;
            stop.cancel();
        }
    }));
    tasks.push(tokio::spawn({
        let (batches, stop) = (app.batches.clone(), stop.clone());
        async move { batches.sweep_until(stop).await }
    }));
    tasks.push(tokio::spawn({
        let (batches, stop) = (app.batches.clone(), stop.clone());
        async move { batches.announce_until(stop).await }
    }));
    tasks.push(tokio::spawn({
        let (batches, stop) = (app.batches.clone(), stop.clone());
        async move { batches.deliver_until(stop).await }
    }));
    if chunks > 0 {
        let worker = Worker::new(
            app.batches.clone(),
            worker_name(),
            describe_item,
            Arc::new(fastrand::f64),
        );
        tasks.push(tokio::spawn(worker.run(chunks, stop)));
    }
    BatchTasks { tasks }
}

/// Returns a name that tells which process has a lease.
fn worker_name() -> String {
    let host = sysinfo::System::host_name().unwrap_or_default();
    format!("{host}/{}", std::process::id())
}

/// Processes the items of batches until a signal arrives.
///
/// # Errors
/// Returns an error if the start fails.
pub fn run(config: Config, chunks: Option<usize>) -> anyhow::Result<ExitCode> {
    start_logs(&config)?;
    tokio_runtime()?.block_on(async {
        let deadline = config.server.shutdown_timeout();
        let chunks = chunks.unwrap_or(match config.batches.workers {
            0 => DEFAULT_CHUNKS,
            workers => workers,
        });
        let app = Arc::new(start_app(config).await?);
        serve::prepare_store(&app).await;
        tracing::info!(chunks, "processing batches");
        let forced = serve::stop_at_signal(app.lifecycle.clone(), "returning the chunks");
        let tasks = start(&app, chunks);
        let lifecycle = app.lifecycle.clone();
        let ending = lifecycle.drive(tasks.stopped(), deadline, forced).await;
        serve::close_store(&app).await;
        Ok(match ending {
            Ending::Clean => ExitCode::SUCCESS,
            Ending::Cut => ExitCode::FAILURE,
        })
    })
}
