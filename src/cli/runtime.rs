//! What `serve`, `scan` and `embed` start alike: logs, the async runtime and the application.

use std::{io::IsTerminal, sync::Arc, thread};

use anyhow::Context;

use crate::{
    app::App,
    config::{Config, Origin, Provenance},
    telemetry::logging,
};
use facescan_clock::SystemClock;
use facescan_inference::backend::{Backend, combined::CombinedBackend, ort::OrtBackend};

/// Starts the logs as the settings say.
///
/// # Errors
/// When the filter cannot be read.
pub fn start_logs(config: &Config) -> anyhow::Result<()> {
    start_logs_at(config, &config.log.level)
}

/// The same for a command that prints results: only warnings, unless a level was asked for.
///
/// # Errors
/// When the filter cannot be read.
pub fn start_quiet_logs(config: &Config, provenance: &Provenance) -> anyhow::Result<()> {
    let asked = !matches!(provenance.of("log.level"), None | Some(Origin::Default));
    start_logs_at(config, if asked { &config.log.level } else { "warn" })
}

fn start_logs_at(config: &Config, level: &str) -> anyhow::Result<()> {
    logging::init(level, config.log.format, std::io::stderr().is_terminal())
}

/// Cores for each thread of the async runtime: requests are read and answered there, which takes a few hundredths of the
/// time that the pool takes for them.
const CORES_A_THREAD: usize = 4;

/// The async runtime. Threads that it does not need would wake one another for each request, to find nothing to do.
///
/// # Errors
/// When its threads cannot be started.
pub fn tokio_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let cores = thread::available_parallelism().context("counting the cores")?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.get().div_ceil(CORES_A_THREAD))
        .enable_all()
        .build()
        .context("starting the async runtime")
}

/// Loads ONNX Runtime and starts the application on it.
///
/// # Errors
/// A missing runtime, a model that does not fit, or a database that cannot be used.
pub async fn start_app(config: Config) -> anyhow::Result<App> {
    let backend = backend(&config)?;
    App::builder(config, backend, Arc::new(SystemClock::start()))
        .build()
        .await
}

/// Loads ONNX Runtime, with libtorch beside it where that is built in.
///
/// # Errors
/// When its library is missing or does not fit.
pub fn backend(config: &Config) -> anyhow::Result<Arc<dyn Backend>> {
    let runtime = &config.runtime;
    let backend = OrtBackend::load(runtime.library.as_deref(), &runtime.plugins_dir)?;
    Ok(Arc::new(CombinedBackend::new(Box::new(backend))))
}
