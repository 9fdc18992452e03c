//! `facescan bench`: measures the effect of the devices.

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use facescan_config::Config;

use crate::lifecycle;

mod devices;
pub mod images;
pub(super) mod report;

/// The measurements of `facescan bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure each operation with its toggle off and on, and show which toggles pay off on this machine.
    ///
    /// The settings choose the device (GPU_BACKEND, GPU_DEVICE_ID). The command starts no server and stores nothing.
    #[command(
        after_help = "Examples:\n  facescan bench devices --output .runtime/bench\n  \
                            GPU_BACKEND=openvino facescan bench devices --operation face_embedding --batch-size 32\n  \
                            facescan bench devices --image-size small,medium --no-gpu --iterations 100\n\n\
                            Exit codes: 0 every image of every batch succeeded · 1 at least one image failed"
    )]
    Devices(devices::DevicesArgs),
}

/// Runs the measurement and prints a table.
///
/// # Errors
/// Returns an error if an image or a model is missing, or the report cannot be written.
pub fn run(config: &Config, command: BenchCommand) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Devices(args) => devices::run(config, &args),
    }
}

/// Runs a measurement until it ends or a signal arrives.
fn run_to_end<T>(measurement: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the async runtime")?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = measurement => outcome,
            signal = lifecycle::signal() => {
                signal.context("listening for signals")?;
                anyhow::bail!("interrupted, no report was written; run it again")
            }
        }
    });
    // After a signal, threads of the measurement may still be running.
    runtime.shutdown_background();
    outcome
}
