//! The `facescan-bench` binary: measures the models, the index and the preprocessing without a server, and runs the server of the
//! drills. `benches/` measures servers over HTTP.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use facescan::{
    cli::{exit_code, runtime::start_quiet_logs},
    exit, heap,
};
use facescan_config::{Config, Sources};
use facescan_telemetry as telemetry;

mod drill_server;
mod floor;
mod preprocess;
mod search;

/// The allocator of the server, so that the floor uses the same one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the parts of facescan. Each measurement prints JSON.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
struct Cli {
    /// A settings file. It is read like that of `facescan --config`.
    #[arg(long, short, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure only decoding and the models: sessions of one thread each, on every core.
    Floor(floor::FloorArgs),
    /// Measure searches in a collection of synthetic faces.
    Search(search::SearchArgs),
    /// Measure how many images per second become rows, from memory and from JPEG files.
    Preprocess(preprocess::PreprocessArgs),
    /// Run a server or a worker whose models have a fixed service time, for drills.
    DrillServer(drill_server::DrillServerArgs),
}

fn main() {
    heap::return_large_blocks();
    heap::use_small_pages();
    telemetry::opt_out::of_the_runtime();
    exit::without_handlers(exit_code(run(Cli::parse())))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let (config, provenance) = Config::load(&Sources::from_process(cli.config, None)?)?;
    // A drill server starts its own logs.
    if !matches!(cli.command, Command::DrillServer(_)) {
        start_quiet_logs(&config, &provenance)?;
    }
    match cli.command {
        Command::Floor(args) => floor::run(&config, &args),
        Command::Search(args) => search::run(&config, &args),
        Command::Preprocess(args) => preprocess::run(&args),
        Command::DrillServer(args) => drill_server::run(config, &args),
    }
}

/// Returns a percentile in milliseconds, or zero if there are no latencies.
fn millis(sorted: &[Duration], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    let found = sorted.get(rank.saturating_sub(1));
    found.map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
}

/// Parses a number of seconds above zero that is small enough for time arithmetic.
fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| *number > 0.0 && *number < 1e6)
        .ok_or_else(|| "must be a number above 0".to_owned())
}
