//! What a server's processes use.

use std::time::{Duration, Instant};

use serde::Serialize;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::cli::bench::workload::Window;

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

/// Reads some processes as one.
pub struct Processes {
    system: System,
    pids: Vec<Pid>,
}

struct Sample {
    cpu: Duration,
    rss: f64,
}

impl Processes {
    /// The processes with these numbers.
    pub fn new(pids: &[u32]) -> Self {
        Self {
            system: System::new(),
            pids: pids.iter().copied().map(Pid::from_u32).collect(),
        }
    }

    /// Reads them through the window; `None` when there are none, or one has gone.
    pub async fn watch(mut self, window: Window) -> Option<Usage> {
        let first = self.sample_at(window.start).await?;
        let mut curve = vec![first.rss];
        let mut at = window.start + EVERY;
        while at < window.end {
            curve.push(self.sample_at(at).await?.rss);
            at += EVERY;
        }
        let last = self.sample_at(window.end).await?;
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

    /// Their resident memory now, in MiB; `None` when there are none, or one has gone.
    pub fn memory(&mut self) -> Option<f64> {
        self.sample().map(|sample| sample.rss)
    }

    async fn sample_at(&mut self, at: Instant) -> Option<Sample> {
        tokio::time::sleep_until(at.into()).await;
        self.sample()
    }

    fn sample(&mut self) -> Option<Sample> {
        self.system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&self.pids),
            true,
            ProcessRefreshKind::nothing().with_cpu().with_memory(),
        );
        let found: Vec<_> = self
            .pids
            .iter()
            .map(|pid| self.system.process(*pid))
            .collect::<Option<_>>()?;
        (!found.is_empty()).then(|| Sample {
            cpu: Duration::from_millis(
                found
                    .iter()
                    .map(|process| process.accumulated_cpu_time())
                    .sum(),
            ),
            rss: found.iter().map(|process| process.memory()).sum::<u64>() as f64 / 1024.0 / 1024.0,
        })
    }
}
