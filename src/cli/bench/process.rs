//! The CPU time and memory of processes.

use std::time::Duration;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// Reads some processes as one.
pub struct Processes {
    system: System,
    pids: Vec<Pid>,
}

/// What processes have used until a moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// CPU time since they started, user and system.
    pub cpu: Duration,
    /// Resident memory in MiB.
    pub rss: f64,
}

impl Processes {
    /// The processes with these numbers.
    pub fn new(pids: &[u32]) -> Self {
        Self {
            system: System::new(),
            pids: pids.iter().copied().map(Pid::from_u32).collect(),
        }
    }

    /// Their resident memory now, in MiB; `None` when there are none, or one has gone.
    pub fn memory(&mut self) -> Option<f64> {
        self.sample().map(|sample| sample.rss)
    }

    /// What they have used until now; `None` when there are none, or one has gone.
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
