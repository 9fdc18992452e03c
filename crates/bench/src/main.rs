//! The `facescan-bench` binary: how fast a server is, seen from outside, and how fast its models alone could be.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use facescan::{
    cli::{exit_code, runtime::start_quiet_logs},
    config::{Config, Sources},
    telemetry,
};

mod compare;
mod floor;
mod load;
mod maths;
mod own_server;
mod plots;
mod preprocess;
mod soak;
mod workload;

/// The server's allocator, so that the floor decodes with it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures a facescan server, its models alone, and other servers.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
struct Cli {
    /// A settings file, read as `facescan --config` reads it and passed on to the servers that are started.
    #[arg(long, short, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The `facescan` binary that is measured; the one beside this binary where nothing is said.
    #[arg(long, global = true, value_name = "FILE")]
    facescan: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send pictures to a server over HTTP and measure its answers.
    ///
    /// Without --url a server is started for the run, with the settings in force and a database of its own.
    #[command(
        after_help = "Examples:\n  facescan-bench load --operation embed --clients 16 --seconds 20\n  \
                            facescan-bench load --url http://127.0.0.1:9000/analyze --query '' --rate 40\n\n\
                            Exit codes: 0 measured · 1 not one request was answered with 200"
    )]
    Load(load::LoadArgs),
    /// Measure what decoding and the models alone take: bare sessions, one thread each, on every core.
    Floor(floor::FloorArgs),
    /// Measure the floor, this server and its peers in turn, round after round, and compare the medians.
    #[command(
        after_help = "Examples:\n  facescan-bench compare --operation embed --rounds 5 --seconds 20 --overload --single\n  \
                            facescan-bench compare --peer other=http://127.0.0.1:9000/analyze --output .runtime/bench"
    )]
    Compare(compare::CompareArgs),
    /// Send very many requests of every kind to a server, and see whether its memory stays flat.
    Soak(soak::SoakArgs),
    /// Measure how many pictures a second become rows, from memory and from JPEG files. Prints JSON.
    Preprocess(preprocess::PreprocessArgs),
}

/// The settings in force, and what a started server is started with.
struct Settings {
    config: Config,
    file: Option<PathBuf>,
    facescan: Option<PathBuf>,
}

fn main() -> ExitCode {
    telemetry::opt_out::of_the_runtime();
    exit_code(run(Cli::parse()))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let (config, provenance) = Config::load(&Sources::from_process(cli.config.clone())?)?;
    start_quiet_logs(&config, &provenance)?;
    let settings = Settings {
        config,
        file: cli.config,
        facescan: cli.facescan,
    };
    match cli.command {
        Command::Load(args) => load::run(&settings, &args),
        Command::Floor(args) => floor::run(&settings, &args),
        Command::Compare(args) => compare::run(&settings, &args),
        Command::Soak(args) => soak::run(&settings, &args),
        Command::Preprocess(args) => preprocess::run(&args),
    }
}
