//! The `facescan` binary.

use facescan::{cli::Cli, exit, heap};
use facescan_telemetry as telemetry;

/// Decoding allocates and frees megabytes per request on many threads. The system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    heap::return_large_blocks();
    heap::use_small_pages();
    telemetry::opt_out::of_the_runtime();
    exit::without_handlers(Cli::from_process().run())
}
