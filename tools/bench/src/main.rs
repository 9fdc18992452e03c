//! The `facescan-bench` binary: measures the speed of a server over HTTP, and the speed of its models alone.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use facescan::{
    cli::{exit_code, runtime::start_quiet_logs},
    config::{Config, Sources},
    exit, heap, telemetry,
};

mod compare;
mod drill_server;
mod floor;
mod load;
mod math;
mod own_server;
mod plots;
mod preprocess;
mod search;
mod soak;
mod workload;

/// The allocator of the server, so that the floor uses the same one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures a facescan server, its models alone, and other servers.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
struct Cli {
    /// A settings file. It is read like that of `facescan --config` and passed on to the servers that are started.
    #[arg(long, short, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The `facescan` binary to measure [default: the one in the folder of this binary]
    #[arg(long, global = true, value_name = "FILE")]
    facescan: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send images to a server over HTTP and measure its answers.
    ///
    /// Without --url, a new server is started for the run, with the effective settings and its own database.
    #[command(
        after_help = "Examples:\n  facescan-bench load --operation embed --clients 16 --seconds 20\n  \
                            facescan-bench load --url http://127.0.0.1:9000/analyze --query '' --rate 40\n\n\
                            Exit codes: 0 measured · 1 no request was answered with 200"
    )]
    Load(load::LoadArgs),
    /// Measure only decoding and the models: sessions of one thread each, on every core.
    Floor(floor::FloorArgs),
    /// Measure the floor, this server and its peers in turn, over several rounds, and compare the medians.
    #[command(
        after_help = "Examples:\n  facescan-bench compare --operation embed --rounds 5 --seconds 20 --overload --single\n  \
                            facescan-bench compare --peer other=http://127.0.0.1:9000/analyze --output .runtime/bench"
    )]
    Compare(compare::CompareArgs),
    /// Send many requests of every kind to a server, and check whether its memory grows.
    Soak(soak::SoakArgs),
    /// Measure searches in a collection of synthetic faces. Prints JSON.
    Search(search::SearchArgs),
    /// Run a server or a worker whose models have a fixed service time, for drills.
    DrillServer(drill_server::DrillServerArgs),
    /// Measure how many images per second become rows, from memory and from JPEG files. Prints JSON.
    Preprocess(preprocess::PreprocessArgs),
}

/// The effective settings, and the files that a started server gets.
struct Settings {
    config: Config,
    file: Option<PathBuf>,
    facescan: Option<PathBuf>,
}

fn main() {
    heap::return_large_blocks();
    heap::use_small_pages();
    telemetry::opt_out::of_the_runtime();
    exit::without_handlers(exit_code(run(Cli::parse())))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let (config, provenance) = Config::load(&Sources::from_process(cli.config.clone(), None)?)?;
    if let Command::DrillServer(args) = &cli.command {
        return drill_server::run(config, args);
    }
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
        Command::Search(args) => search::run(&settings, &args),
        Command::Preprocess(args) => preprocess::run(&args),
        Command::DrillServer(_) => unreachable!("handled above, because it starts its own logs"),
    }
}
