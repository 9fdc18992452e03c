//! `facescan bench`: how fast a server is, seen from outside, how fast its models alone could be, and what its devices
//! change.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Subcommand;

use super::runtime::start_quiet_logs;
use crate::{
    config::{Config, Provenance},
    lifecycle,
};

mod child;
mod compare;
mod devices;
mod floor;
mod load;
mod report;
mod soak;
mod workload;

/// What `facescan bench` can measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Send pictures to a server over HTTP and measure its answers.
    ///
    /// Without --url a server of this binary is started for the run, with the settings in force and a
    /// database of its own.
    #[command(
        after_help = "Examples:\n  facescan bench load --operation embed --clients 16 --seconds 20\n  \
                            facescan bench load --url http://127.0.0.1:9000/analyze --query '' --rate 40\n\n\
                            Exit codes: 0 measured · 1 not one request was answered with 200"
    )]
    Load(load::LoadArgs),
    /// Measure what decoding and the models alone take: bare sessions, one thread each, on every core.
    Floor(floor::FloorArgs),
    /// Measure the floor, this server and its peers in turn, round after round, and compare the medians.
    #[command(
        after_help = "Examples:\n  facescan bench compare --operation embed --rounds 5 --seconds 20 --overload --single\n  \
                            facescan bench compare --peer other=http://127.0.0.1:9000/analyze --output .runtime/bench"
    )]
    Compare(compare::CompareArgs),
    /// Send very many requests of every kind to a server of this binary, and see whether its memory stays flat.
    Soak(soak::SoakArgs),
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

/// Measures and prints a table; the settings file is passed on to the servers that are started.
///
/// # Errors
/// When a picture, a model or a server is missing, or the report cannot be written.
pub fn run(
    config: &Config,
    provenance: &Provenance,
    file: Option<&Path>,
    command: BenchCommand,
) -> anyhow::Result<ExitCode> {
    start_quiet_logs(config, provenance)?;
    let settings = Settings {
        config,
        file: file.map(Path::to_owned),
    };
    match command {
        BenchCommand::Load(args) => load::run(&settings, &args),
        BenchCommand::Floor(args) => floor::run(&settings, &args),
        BenchCommand::Compare(args) => compare::run(&settings, &args),
        BenchCommand::Soak(args) => soak::run(&settings, &args),
        BenchCommand::Devices(args) => devices::run(&settings, &args),
    }
}

/// The settings in force here, and the file that a started server reads to have the same.
struct Settings<'a> {
    config: &'a Config,
    file: Option<PathBuf>,
}

/// Runs a measurement, or as much of it as there is time for: a signal ends it, and the servers that it started with it.
///
/// The runtime has one thread, as it shares the cores with the server.
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
                anyhow::bail!("interrupted; run it again for a report")
            }
        }
    });
    // After a signal the threads of the floor may still be at work.
    runtime.shutdown_background();
    outcome
}
