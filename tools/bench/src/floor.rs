//! `facescan-bench floor`: measures decoding and the models alone on every core.
//!
//! A server with the same models and decoders cannot be faster, unless a batch of rows costs less than the rows one by
//! one.

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use clap::Args;
use facescan::cli::{bench::images::load_images, runtime::tokio_runtime};
use facescan_config::Config;
use facescan_pipeline::operation::ScanKind;
use serde_json::Value;

use crate::{millis, seconds};

mod sessions;
mod work;

/// The time before the measurement, which does not count.
const WARM_UP: Duration = Duration::from_secs(1);

/// The subject and the threads of the measurement.
#[derive(Debug, Args)]
pub struct FloorArgs {
    /// The scan of each image, such as detect or embed.
    #[arg(long, default_value = "detect", value_parser = operation)]
    operation: ScanKind,
    /// Images, or folders of images.
    #[arg(long, num_args = 1.., value_name = "FILE|DIR", default_value = ".runtime/pictures")]
    images: Vec<PathBuf>,
    /// The duration of the measurement after a second of warm-up.
    #[arg(long, default_value = "10", value_parser = seconds)]
    seconds: f64,
    /// The number of threads, each with its own sessions [default: one per core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
}

fn operation(text: &str) -> Result<ScanKind, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| error.to_string())
}

/// The time between the warm-up and the end of the measurement.
#[derive(Clone, Copy)]
struct Window {
    start: Instant,
    end: Instant,
}

impl Window {
    fn contains(&self, moment: Instant) -> bool {
        (self.start..self.end).contains(&moment)
    }
}

/// The images of the window, and the time of each part of the work.
#[derive(Default)]
struct Part {
    /// The time of each image that began in the window.
    latencies: Vec<Duration>,
    /// The number of images that ended in the window.
    images: u64,
    decode: Duration,
    detect: Duration,
    embed: Duration,
}

impl Part {
    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.images += other.images;
        self.decode += other.decode;
        self.detect += other.detect;
        self.embed += other.embed;
    }
}

/// Measures the floor and prints it.
pub fn run(config: &Config, args: &FloorArgs) -> anyhow::Result<ExitCode> {
    let images = load_images(&args.images)?;
    let threads = match args.threads {
        Some(threads) => threads,
        None => thread::available_parallelism().context("counting the cores")?,
    };
    let runtime = tokio_runtime()?;
    let (mut workers, work) =
        runtime.block_on(work::prepare(config, args.operation, images, threads))?;
    let start = Instant::now() + WARM_UP;
    let end = start + Duration::from_secs_f64(args.seconds);
    let window = Window { start, end };
    let mut whole = Part::default();
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| scope.spawn(move || worker.run(work, window)))
            .collect();
        for thread in threads {
            let part = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
            whole.add(part?);
        }
        anyhow::Ok(())
    })?;
    let spent = (whole.decode + whole.detect + whole.embed).as_secs_f64();
    let share = |part: Duration| part.as_secs_f64() / spent.max(f64::MIN_POSITIVE);
    whole.latencies.sort_unstable();
    let report = serde_json::json!({
        "threads": threads,
        "images_per_second": whole.images as f64 / args.seconds,
        "p50_ms": millis(&whole.latencies, 0.5),
        "p99_ms": millis(&whole.latencies, 0.99),
        "shares": {
            "decode": share(whole.decode),
            "detect": share(whole.detect),
            "embed": share(whole.embed),
        },
        "faces": work.faces,
    });
    println!("{report:#}");
    Ok(ExitCode::SUCCESS)
}
