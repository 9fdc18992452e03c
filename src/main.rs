//! The `facescan` binary.

use std::process::ExitCode;

use clap::Parser;
use facescan::{cli::Cli, telemetry};

/// Decoding allocates and frees megabytes per request; jemalloc's background threads give them back to the system.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    telemetry::opt_out::of_the_runtime();
    Cli::parse().run()
}
