//! `facescan bench`: what the devices change, and what `facescan-bench` measures with too.

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;

use super::runtime::start_quiet_logs;
use crate::{
    config::{Config, Provenance},
    lifecycle,
};

mod devices;
pub mod pictures;
pub mod process;
pub mod report;

/// What `facescan bench` can measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure each operation with its toggle off and on, and say which toggles pay on this machine.
    ///
    /// The device is the settings' (GPU_BACKEND, GPU_DEVICE_ID). No server is started and nothing is stored.
    #[command(
        after_help = "Examples:\n  facescan bench devices --output .runtime/bench\n  \
                            GPU_BACKEND=openvino facescan bench devices --operation face_embedding --batch-size 32\n  \
                            facescan bench devices --image-size small,medium --no-gpu --iterations 100\n\n\
                            Exit codes: 0 every picture of every batch succeeded · 1 at least one failed"
    )]
    Devices(devices::DevicesArgs),
}

/// Measures and prints a table.
///
/// # Errors
/// When a picture or a model is missing, or the report cannot be written.
pub fn run(
    config: &Config,
    provenance: &Provenance,
    command: BenchCommand,
) -> anyhow::Result<ExitCode> {
    start_quiet_logs(config, provenance)?;
    match command {
        BenchCommand::Devices(args) => devices::run(config, &args),
    }
}

/// Runs a measurement, or as much of it as there is time for: a signal ends it, and the servers that it started with it.
///
/// The runtime has one thread, as it shares the cores with the server.
///
/// # Errors
/// When the measurement fails or a signal ends it.
pub fn run_to_end<T>(measurement: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the async runtime")?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = measurement => outcome,
            signal = lifecycle::signal() => {
                signal.context("listening for signals")?;
                anyhow::bail!("interrupted; run it again for a report")
            }
        }
    });
    // After a signal, threads of the measurement may still be at work.
    runtime.shutdown_background();
    outcome
}
