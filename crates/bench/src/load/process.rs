//! What a server's processes use.

use std::time::{Duration, Instant};

use facescan::cli::bench::process::{Processes, Sample};
use serde::Serialize;

use crate::workload::Window;

/// How often the memory is read.
const EVERY: Duration = Duration::from_secs(1);

/// CPU time and memory of a server in the window.
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    /// Seconds of CPU time, user and system.
    pub cpu_seconds: f64,
    /// The same per second: how many cores were busy.
    pub cores: f64,
    /// Resident memory.
    pub rss: Rss,
}

/// Resident memory in MiB, once a second.
#[derive(Clone, Debug, Serialize)]
pub struct Rss {
    /// At the start.
    pub first: f64,
    /// The most.
    pub peak: f64,
    /// At the end.
    pub last: f64,
    /// All of it.
    pub curve: Vec<f64>,
}

/// Reads processes through the window; `None` when there are none, or one has gone.
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
