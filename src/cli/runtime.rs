//! The common start of the commands: logs, the async runtime and the application.

use std::{io::IsTerminal, process::ExitCode, sync::Arc, thread};

use anyhow::Context;
use facescan_config::{Config, Origin, Provenance};
use facescan_telemetry::{
    logging,
    traces::{self, Exporter},
};

use crate::app::{Parts, open_store};
use facescan_inference::backend::{
    Backend, combined::CombinedBackend, openvino::OpenvinoBackend, ort::OrtBackend,
};
use facescan_pipeline::encoder_process;
use facescan_store::{Observer, Store};

/// Returns the exit code of a command whose work has succeeded or failed.
pub fn success_if(has_succeeded: bool) -> ExitCode {
    if has_succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Starts the logs of a command that prints results. It logs only warnings, unless the settings name a level.
///
/// # Errors
/// Returns an error if the filter cannot be parsed.
pub fn start_quiet_logs(config: &Config, provenance: &Provenance) -> anyhow::Result<()> {
    let asked = !matches!(provenance.get("log.level"), None | Some(Origin::Default));
    let level = if asked { &config.log.level } else { "warn" };
    start_logs(config, level, None)
}

/// Starts the logs at a level, in the format of the settings.
pub(super) fn start_logs(
    config: &Config,
    level: &str,
    traces: Option<logging::BoxedLayer>,
) -> anyhow::Result<()> {
    let is_terminal = std::io::stderr().is_terminal();
    logging::init(level, config.log.format, is_terminal, traces)
}

/// Keeps a command that stores nothing from creating a database file.
pub fn store_nothing(config: &mut Config) {
    config.database.url = Some("sqlite::memory:".to_owned().into());
}

/// Starts the logs and the traces of a server or a worker. Drop the exporter at the end, outside the async runtime.
///
/// # Errors
/// Returns an error if the filter cannot be parsed, or if the export of traces cannot be set up.
pub fn start_telemetry(config: &Config) -> anyhow::Result<Option<Exporter>> {
    let (layer, exporter) = traces::start(&config.traces)?.unzip();
    start_logs(config, &config.log.level, layer)?;
    Ok(exporter)
}

/// The number of cores for each thread of the async runtime. This runtime only reads requests and writes responses, which
/// takes a few hundredths of the time that the pool takes for them.
const CORES_A_THREAD: usize = 4;

/// Creates the async runtime. Extra threads would wake each other for each request and find nothing to do.
///
/// # Errors
/// Returns an error if its threads cannot be started.
pub fn tokio_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let cores = thread::available_parallelism().context("counting the cores")?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.get().div_ceil(CORES_A_THREAD))
        .enable_all()
        .build()
        .context("starting the async runtime")
}

/// Runs a server or a worker to its end on an async runtime of its own.
///
/// Jobs that are still running on threads of the runtime do not hold up the end. What they wait to write has a lease, so another
/// process does it again.
///
/// # Errors
/// Returns an error if the threads cannot be started, or the error of the work.
pub fn run_to_shutdown<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio_runtime()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}

/// Returns the runtime of the settings, with what it takes from outside by default.
///
/// # Errors
/// The errors of [`backend`], or an error if the operating system does not know the program that runs.
pub fn parts(config: &Config) -> anyhow::Result<Parts> {
    let program = encoder_process::this_program().context("finding the program's own file")?;
    Ok(Parts {
        encoder: Some(program),
        ..Parts::new(backend(config)?)
    })
}

/// Opens the database of a command that runs no model, and creates or upgrades its tables.
///
/// # Errors
/// Returns an error if the database is unavailable or the tables cannot be created.
pub async fn open_database(config: &Config) -> anyhow::Result<Store> {
    let store = open_store(config, Observer::default()).await?;
    let migrated = store.migrate().await;
    migrated.context("creating the tables")?;
    Ok(store)
}

/// Loads ONNX Runtime. OpenVINO is loaded when it is first needed. libtorch is linked if it is built in.
///
/// # Errors
/// Returns an error if the library is missing or has the wrong version.
pub fn backend(config: &Config) -> anyhow::Result<Arc<dyn Backend>> {
    let runtime = &config.runtime;
    let onnx = OrtBackend::load(&runtime.onnxruntime(), &runtime.plugins())?;
    let openvino = OpenvinoBackend::new(&runtime.openvino());
    Ok(Arc::new(CombinedBackend::new(
        Box::new(onnx),
        Box::new(openvino),
    )))
}
