//! The `facescan` binary.

use std::process::ExitCode;

use clap::Parser;
use facescan::{cli::Cli, heap, telemetry};

/// Decoding allocates and frees megabytes per request on many threads. The system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    heap::return_large_blocks();
    telemetry::opt_out::of_the_runtime();
    Cli::parse().run()
}
