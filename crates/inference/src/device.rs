//! The requested and the active device of each operation, and the state of the devices.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    backend::BackendError,
    device_task::DeviceTask,
    health::{Fault, Health, HealthReport},
    placement::{DevicePlacement, Provider},
    proof::Proof,
};
use facescan_clock::Clock;

pub use memory::{DeviceMemory, Hardware};

mod memory;
pub(crate) mod supervisor;
#[cfg(test)]
pub(crate) mod testing;
mod worker;

/// The requested and the active device of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceState {
    /// The device that the settings name, such as `cpu` or `cuda:0`.
    #[schema(example = "cuda:0")]
    pub requested: String,
    /// The device in use. It is `none` while a remote server is unreachable, because there is no CPU to fall back to.
    #[schema(example = "cpu")]
    pub active: String,
    /// The reason why the operation runs on the CPU although the settings name another device. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl DeviceState {
    /// Returns whether the operation runs on the CPU although the settings name another device.
    pub fn fell_back(&self) -> bool {
        self.reason.is_some()
    }
}

/// Where the rows or the image job of one result ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRun {
    /// Where it ran.
    pub placement: DevicePlacement,
    /// The reason why it ran on the CPU although the operation has a device.
    pub fallback: Option<Fault>,
}

impl DeviceRun {
    /// A run on the CPU that no device attempted first.
    pub const CPU: Self = Self {
        placement: DevicePlacement::CPU,
        fallback: None,
    };

    /// Returns the run to report for a result that needed both. A run that fell back has priority.
    #[must_use]
    pub fn or_fallback(self, other: Self) -> Self {
        if self.fallback.is_none() && other.fallback.is_some() {
            other
        } else {
            self
        }
    }
}

/// The outcome of an operation's toggle at startup.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The device task.
    pub task: DeviceTask,
    /// The requested device, such as `cuda:0`, or `cpu`.
    pub requested: String,
    /// The device that passed the self-test, with its current state, or the reason why there is none.
    pub device: Result<Active, Option<String>>,
    /// The provider that runs the model on the CPU.
    pub cpu: DevicePlacement,
    /// The comparison of OpenVINO's outputs on the CPU, if it was tried.
    pub cpu_proof: Option<CpuProof>,
}

/// A device in use.
#[derive(Clone, Debug)]
pub struct Active {
    /// Provider, device number and precision.
    pub placement: DevicePlacement,
    /// Its current state.
    pub health: Arc<Health>,
    /// The result of its self-test.
    pub proof: Proof,
}

/// The result of testing a provider for the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CpuProof {
    /// Whether it is used.
    pub used: bool,
    /// The cosine and the times, or the reason why it is not used.
    pub detail: String,
}

/// A provider, and the result of its self-test.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProviderReport {
    /// The provider, with its device if it was tried, such as `cuda:0`.
    #[schema(example = "cuda:0")]
    pub device: String,
    /// `proved` by a small graph with a known output, `refused`, or `untried` because no operation requests it.
    #[schema(example = "refused")]
    pub state: &'static str,
    /// The reason of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ProviderReport {
    /// Creates the report of a placement after the self-test graph. `refused` has the error of the run, if it failed.
    pub fn new(placement: DevicePlacement, refused: Option<BackendError>) -> Self {
        Self {
            device: placement.to_string(),
            state: if refused.is_none() { PROVED } else { REFUSED },
            reason: refused.map(|error| error.to_string()),
        }
    }

    /// Returns the provider, if it was not tried.
    pub fn is_untried(&self) -> Option<Provider> {
        Provider::local().find(|provider| self.state == UNTRIED && provider.name() == self.device)
    }

    /// Returns whether the report is about this provider.
    fn is_of(&self, provider: Provider) -> bool {
        self.device.split(':').next() == Some(provider.name())
    }
}

/// The name of the CPU as a device.
const CPU: &str = "cpu";
const PROVED: &str = "proved";
const REFUSED: &str = "refused";
const UNTRIED: &str = "untried";

/// The devices of all operations, and the providers that were tried for them.
pub struct Devices {
    assignments: Vec<Assignment>,
    preprocessing: (Arc<Assignment>, Option<f64>),
    tried: Vec<ProviderReport>,
    hardware: Hardware,
    clock: Arc<dyn Clock>,
}

/// A report of all devices.
#[derive(Debug, Serialize, ToSchema)]
pub struct DevicesReport {
    /// Every provider, and the result of its self-test at startup.
    pub backends: Vec<ProviderReport>,
    /// The devices in use, with their memory as the driver reports it now.
    pub devices: Vec<DeviceMemory>,
    /// Each operation's toggle, device and faults.
    #[schema(value_type = BTreeMap<String, OperationReport>)]
    pub operations: BTreeMap<&'static str, OperationReport>,
    /// The device of `/preprocess`, which has its own settings.
    pub preprocessing: PreprocessingReport,
}

/// The platform, device and faults of preprocessing.
#[derive(Debug, Serialize, ToSchema)]
pub struct PreprocessingReport {
    /// The same report as for an operation. The toggle belongs to the platform.
    #[serde(flatten)]
    pub device: OperationReport,
    /// Milliseconds until the device's graphs were ready at startup; it is absent on the CPU and without a warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_ms: Option<f64>,
}

/// One operation's toggle, device and faults.
#[derive(Debug, Serialize, ToSchema)]
pub struct OperationReport {
    /// Whether the settings name a device other than the CPU.
    pub toggle: bool,
    /// The requested device and the device in use.
    #[serde(flatten)]
    pub state: DeviceState,
    /// The provider that runs the model on the CPU, such as `cpu` or `openvino-cpu`.
    pub cpu_provider: String,
    /// The result of testing another provider for the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_proof: Option<CpuProof>,
    /// The result of the device's self-test at startup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The device's state since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthReport>,
}

impl Devices {
    /// Creates a report from the decisions at startup: those of each operation, and that of preprocessing with the
    /// milliseconds until its graphs were ready.
    pub fn new(
        assignments: Vec<Assignment>,
        preprocessing: (Arc<Assignment>, Option<f64>),
        tried: Vec<ProviderReport>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            assignments,
            preprocessing,
            tried,
            hardware: Hardware::find(),
            clock,
        }
    }

    /// Returns every operation with its current state.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceTask, DeviceState)> {
        self.assignments
            .iter()
            .map(|assignment| (assignment.task, assignment.state()))
    }

    /// Returns the outcome of an operation's toggle at startup.
    pub fn assignment(&self, task: DeviceTask) -> Option<&Assignment> {
        self.assignments
            .iter()
            .find(|assignment| assignment.task == task)
    }

    /// Returns the provider that runs an operation's model on the CPU.
    pub fn cpu_placement(&self, task: DeviceTask) -> DevicePlacement {
        self.assignment(task)
            .map_or(DevicePlacement::CPU, |assignment| assignment.cpu)
    }

    /// Returns a report of all devices now.
    pub fn report(&self) -> DevicesReport {
        let now = self.clock.monotonic();
        let (preprocessing, warm_up_ms) = &self.preprocessing;
        let mut placements: Vec<DevicePlacement> = self
            .all()
            .filter_map(|assignment| Some(assignment.device.as_ref().ok()?.placement))
            .filter(|placement| !placement.provider.is_on_cpu())
            .collect();
        placements.sort_by_key(|placement| (placement.provider, placement.index));
        placements.dedup_by_key(|placement| (placement.provider, placement.index));
        let untried = Provider::local()
            .filter(|provider| *provider != Provider::Cpu)
            .filter(|provider| !self.tried.iter().any(|tried| tried.is_of(*provider)))
            .map(|provider| ProviderReport {
                device: provider.name().to_owned(),
                state: UNTRIED,
                reason: None,
            });
        DevicesReport {
            backends: self.tried.iter().cloned().chain(untried).collect(),
            devices: std::iter::once(self.hardware.cpu())
                .chain(
                    placements
                        .into_iter()
                        .map(|placement| self.hardware.of(placement)),
                )
                .collect(),
            operations: self
                .assignments
                .iter()
                .map(|assignment| (assignment.task.name(), assignment.report(now)))
                .collect(),
            preprocessing: PreprocessingReport {
                device: preprocessing.report(now),
                warm_up_ms: *warm_up_ms,
            },
        }
    }

    /// Returns the assignment of every operation, then that of preprocessing.
    fn all(&self) -> impl Iterator<Item = &Assignment> {
        let preprocessing = self.preprocessing.0.as_ref();
        self.assignments.iter().chain([preprocessing])
    }

    /// Logs which devices are in use.
    pub fn announce(&self) {
        for assignment in &self.assignments {
            let Ok(active) = &assignment.device else {
                continue;
            };
            let device = self.hardware.of(active.placement);
            tracing::info!(
                operation = assignment.task.name(),
                backend = active.placement.provider.name(),
                device = %active.placement,
                name = device.name,
                memory_used = device.memory_used,
                memory_total = device.memory_total,
                "device in use"
            );
        }
    }
}

impl Assignment {
    /// Returns the requested device and the device in use.
    pub fn state(&self) -> DeviceState {
        let (active, reason) = match &self.device {
            Ok(active) => match active.health.reason() {
                None => (active.placement.to_string(), None),
                reason if active.placement.provider == Provider::Kserve => {
                    ("none".to_owned(), reason)
                }
                reason => (CPU.to_owned(), reason),
            },
            Err(reason) => (CPU.to_owned(), reason.clone()),
        };
        DeviceState {
            requested: self.requested.clone(),
            active,
            reason,
        }
    }

    /// Returns the requested device and the device that ran one result.
    pub fn state_of(&self, run: DeviceRun) -> DeviceState {
        let requested = self.requested.clone();
        if let Ok(active) = &self.device
            && run.placement.provider == active.placement.provider
        {
            return DeviceState {
                active: run.placement.to_string(),
                requested,
                reason: None,
            };
        }
        let reason = match run.fallback {
            _ if requested == CPU => None,
            Some(Fault::Down) | None => {
                Some(self.state().reason.unwrap_or_else(|| match run.fallback {
                    Some(_) => format!("{requested} was down"),
                    None => format!("{requested} has no graph for this work"),
                }))
            }
            Some(fault) => Some(format!("a run on {requested} failed ({})", fault.name())),
        };
        DeviceState {
            active: CPU.to_owned(),
            requested,
            reason,
        }
    }

    fn report(&self, now: Duration) -> OperationReport {
        let active = self.device.as_ref().ok();
        OperationReport {
            toggle: self.requested != CPU,
            state: self.state(),
            cpu_provider: self.cpu.to_string(),
            cpu_proof: self.cpu_proof.clone(),
            proof: active.map(|active| active.proof.clone()),
            health: active.map(|active| active.health.report(now)),
        }
    }
}
