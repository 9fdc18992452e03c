//! Where each operation was asked to run, where it runs, and the state of the devices.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    backend::BackendError,
    health::{Health, HealthReport},
    operation::Operation,
    placement::{DevicePlacement, Provider},
    proof::Proof,
};
use facescan_clock::Clock;

pub use memory::{DeviceMemory, Hardware};

mod memory;
pub(crate) mod supervisor;
mod worker;

/// Where an operation was asked to run and where it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceState {
    /// The device that the settings ask for, such as `cpu` or `cuda:0`.
    #[schema(example = "cuda:0")]
    pub requested: String,
    /// The device in use; `none` while a remote server is unreachable, because there is no CPU to fall back to.
    #[schema(example = "cpu")]
    pub active: String,
    /// Why the operation runs on the CPU although another device was asked for; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl DeviceState {
    /// Whether the operation runs on the CPU although another device was asked for.
    pub fn fell_back(&self) -> bool {
        self.reason.is_some()
    }
}

/// The outcome of an operation's toggle at startup.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The operation.
    pub operation: Operation,
    /// What was asked for, such as `cuda:0`, or `cpu`.
    pub requested: String,
    /// The device that passed the self-test, with its current state; or why there is none.
    pub device: Result<Active, Option<String>>,
    /// What runs the model on the CPU.
    pub cpu: DevicePlacement,
    /// How OpenVINO's outputs on the CPU compare, if it was tried.
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
    /// The cosine and the times, or why it is not used.
    pub detail: String,
}

/// A provider, and the result of its self-test.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProviderReport {
    /// The provider, with its device if it was tried, such as `cuda:0`.
    #[schema(example = "cuda:0")]
    pub device: String,
    /// `proved` by a small graph with a known output, `refused`, or `untried` because no operation asks for it.
    #[schema(example = "refused")]
    pub state: &'static str,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ProviderReport {
    /// The report of a placement that ran the self-test graph, or the reason why it could not.
    pub fn new(placement: DevicePlacement, refused: Option<BackendError>) -> Self {
        Self {
            device: placement.to_string(),
            state: if refused.is_none() { PROVED } else { REFUSED },
            reason: refused.map(|error| error.to_string()),
        }
    }

    /// The provider, if it was not tried.
    pub fn is_untried(&self) -> Option<Provider> {
        Provider::ALL
            .into_iter()
            .find(|provider| self.state == UNTRIED && provider.name() == self.device)
    }

    /// Whether the report is about this provider.
    fn is_of(&self, provider: Provider) -> bool {
        self.device.split(':').next() == Some(provider.name())
    }
}

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
    /// What `/preprocess` runs on. It has settings of its own.
    pub preprocessing: PreprocessingReport,
}

/// The platform, device and faults of preprocessing.
#[derive(Debug, Serialize, ToSchema)]
pub struct PreprocessingReport {
    /// As for an operation. The toggle is that of the platform.
    #[serde(flatten)]
    pub device: OperationReport,
    /// Milliseconds until the device's graphs were ready at startup; absent on the CPU and without a warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_ms: Option<f64>,
}

/// One operation's toggle, device and faults.
#[derive(Debug, Serialize, ToSchema)]
pub struct OperationReport {
    /// Whether a device other than the CPU was asked for.
    pub toggle: bool,
    /// What was asked for and what is in use.
    #[serde(flatten)]
    pub state: DeviceState,
    /// What runs the model on the CPU, such as `cpu` or `openvino-cpu`.
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
    /// The decisions at startup for each operation, and for preprocessing together with the milliseconds until its
    /// graphs were ready.
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

    /// The state of one operation.
    pub fn get(&self, operation: Operation) -> Option<DeviceState> {
        self.iter()
            .find_map(|(known, state)| (known == operation).then_some(state))
    }

    /// Every operation with its current state.
    pub fn iter(&self) -> impl Iterator<Item = (Operation, DeviceState)> {
        self.assignments
            .iter()
            .map(|assignment| (assignment.operation, assignment.state()))
    }

    /// What runs an operation's model on the CPU.
    pub fn cpu_placement(&self, operation: Operation) -> DevicePlacement {
        self.assignments
            .iter()
            .find(|assignment| assignment.operation == operation)
            .map_or(DevicePlacement::CPU, |assignment| assignment.cpu)
    }

    /// A report of all devices now.
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
        let untried = Provider::ALL
            .into_iter()
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
                .map(|assignment| (assignment.operation.name(), assignment.report(now)))
                .collect(),
            preprocessing: PreprocessingReport {
                device: preprocessing.report(now),
                warm_up_ms: *warm_up_ms,
            },
        }
    }

    /// The assignment of every operation, then that of preprocessing.
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
                operation = assignment.operation.name(),
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
    /// What was asked for and what is in use now.
    pub fn state(&self) -> DeviceState {
        let (active, reason) = match &self.device {
            Ok(active) => match active.health.reason() {
                None => (active.placement.to_string(), None),
                reason if active.placement.provider == Provider::Kserve => {
                    ("none".to_owned(), reason)
                }
                reason => ("cpu".to_owned(), reason),
            },
            Err(reason) => ("cpu".to_owned(), reason.clone()),
        };
        DeviceState {
            requested: self.requested.clone(),
            active,
            reason,
        }
    }

    fn report(&self, now: Duration) -> OperationReport {
        let active = self.device.as_ref().ok();
        OperationReport {
            toggle: self.requested != "cpu",
            state: self.state(),
            cpu_provider: self.cpu.to_string(),
            cpu_proof: self.cpu_proof.clone(),
            proof: active.map(|active| active.proof.clone()),
            health: active.map(|active| active.health.report(now)),
        }
    }
}
