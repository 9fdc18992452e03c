//! The `facescan` binary.

use std::process::ExitCode;

use clap::Parser;
use facescan::cli::Cli;

/// Decoding allocates and frees megabytes per request; mimalloc gives them back without fragmenting.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run()
}
