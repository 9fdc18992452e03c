//! The resources that a server's processes use.

use std::time::{Duration, Instant};

use facescan::cli::bench::process::{Processes, Sample};
use serde::Serialize;

use crate::workload::Window;

/// The interval between readings of the memory.
const EVERY: Duration = Duration::from_secs(1);

/// The CPU time and memory of a server in the window.
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    /// The user and system CPU time in seconds.
    pub cpu_seconds: f64,
    /// The CPU time per second: the number of busy cores.
    pub cores: f64,
    /// Resident memory.
    pub rss: Rss,
}

/// The resident memory in MiB, sampled once per second.
#[derive(Clone, Debug, Serialize)]
pub struct Rss {
    /// The first sample.
    pub first: f64,
    /// The largest sample.
    pub peak: f64,
    /// The last sample.
    pub last: f64,
    /// All samples.
    pub curve: Vec<f64>,
}

/// Samples the processes during the window. Returns `None` if there are no processes, or one has ended.
pub async fn watch(mut processes: Processes, window: Window) -> Option<Usage> {
    let first = sample_at(&mut processes, window.start).await?;
    let mut curve = vec![first.rss];
    let mut at = window.start + EVERY;
    while at < window.end {
        curve.push(sample_at(&mut processes, at).await?.rss);
        at += EVERY;
    }
    let last = sample_at(&mut processes, window.end).await?;
    curve.push(last.rss);
    let cpu_seconds = last.cpu.saturating_sub(first.cpu).as_secs_f64();
    Some(Usage {
        cpu_seconds,
        cores: cpu_seconds / (window.end - window.start).as_secs_f64(),
        rss: Rss {
            first: first.rss,
            peak: curve.iter().copied().fold(0.0, f64::max),
            last: last.rss,
            curve,
        },
    })
}

async fn sample_at(processes: &mut Processes, at: Instant) -> Option<Sample> {
    tokio::time::sleep_until(at.into()).await;
    processes.sample()
}
