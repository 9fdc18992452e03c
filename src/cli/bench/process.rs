//! The CPU time and memory of processes.

use std::time::Duration;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// Reads the sum over some processes.
pub struct Processes {
    system: System,
    pids: Vec<Pid>,
}

/// The resources that the processes have used so far.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The user and system CPU time since their start.
    pub cpu: Duration,
    /// Resident memory in MiB.
    pub rss: f64,
}

impl Processes {
    /// Creates a reader for the processes with these ids.
    pub fn new(pids: &[u32]) -> Self {
        Self {
            system: System::new(),
            pids: pids.iter().copied().map(Pid::from_u32).collect(),
        }
    }

    /// Returns the resident memory in MiB. Returns `None` if there are no processes, or one has ended.
    pub fn memory(&mut self) -> Option<f64> {
        self.sample().map(|sample| sample.rss)
    }

    /// Returns the resources used so far. Returns `None` if there are no processes, or one has ended.
    pub fn sample(&mut self) -> Option<Sample> {
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
