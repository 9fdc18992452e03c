//! The machine and the commit of a measurement.

use std::{num::NonZeroUsize, process::Command, thread::available_parallelism};

use serde::Serialize;
use sysinfo::{CpuRefreshKind, RefreshKind, System};

#[derive(Debug, Serialize)]
pub struct Device {
    pub cpu: String,
    /// The number of cores that this process may use.
    pub cores: usize,
    pub system: Option<String>,
}

impl Device {
    pub fn get() -> Self {
        let system =
            System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()));
        Self {
            cpu: system
                .cpus()
                .first()
                .map(|cpu| cpu.brand().trim().to_owned())
                .filter(|brand| !brand.is_empty())
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: available_parallelism().map_or(1, NonZeroUsize::get),
            system: System::long_os_version(),
        }
    }
}

/// Returns the commit of the working directory. It ends with `-dirty` if files differ from the commit.
pub fn commit() -> Option<String> {
    let output = Command::new("git")
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=40",
            "--exclude=*",
        ])
        .output()
        .ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}
