//! Shared by the tests of devices.

use std::{sync::Arc, time::Duration};

use crate::{
    backend::BackendError,
    breaker::BreakerSettings,
    health::{Fault, Health},
    placement::{DevicePlacement, Precision, Provider},
};

pub(crate) const CUDA: DevicePlacement = DevicePlacement::first(Provider::Cuda, Precision::Full);

/// What tests vary of a device.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) run_timeout: Duration,
    pub(crate) check_every: u64,
}

pub(crate) const USUAL: Setting = Setting {
    run_timeout: Duration::from_secs(60),
    check_every: 0,
};

/// Returns the health of a device that goes down after three failures, for a few milliseconds.
pub(crate) fn health(most_rows: usize) -> Arc<Health> {
    let settings = BreakerSettings {
        failures: 3,
        cool_down: Duration::from_millis(1),
        max_cool_down: Duration::from_millis(4),
    };
    Arc::new(Health::new(settings, most_rows))
}

/// Returns the error of a run that takes too much memory.
pub(crate) fn out_of_memory() -> BackendError {
    BackendError::OutOfMemory("on purpose".to_owned())
}

/// Returns the error of a run that fails.
pub(crate) fn failed() -> BackendError {
    BackendError::run("on purpose")
}

/// Returns the number of rows that ran on the CPU because of `fault`.
pub(crate) fn fallbacks(health: &Health, fault: Fault) -> u64 {
    let report = health.report(Duration::ZERO);
    report.fallbacks.get(fault.name()).copied().unwrap_or(0)
}
