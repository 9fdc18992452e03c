//! Which device each operation was asked to run on, and which one it runs on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{config::devices::DevicesConfig, inference::operation::Operation};

/// Where an operation was asked to run and where it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceState {
    /// The device that the settings ask for, such as `cpu` or `cuda:0`.
    #[schema(example = "cuda:0")]
    pub requested: String,
    /// The device in use.
    #[schema(example = "cpu")]
    pub active: String,
    /// Why the two differ; absent when they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl DeviceState {
    /// Whether the operation runs somewhere else than asked for.
    pub fn fell_back(&self) -> bool {
        self.requested != self.active
    }
}

/// The device state of every operation.
#[derive(Clone, Debug)]
pub struct Devices {
    states: Vec<(Operation, DeviceState)>,
}

impl Devices {
    /// Decides each operation's device from its toggle.
    ///
    /// Only the CPU is built in so far, so an operation that asks for a GPU falls back and says so.
    pub fn from_config(config: &DevicesConfig) -> Self {
        let states = Operation::ALL
            .into_iter()
            .map(|operation| (operation, Self::decide(config, operation)))
            .collect();
        Self { states }
    }

    fn decide(config: &DevicesConfig, operation: Operation) -> DeviceState {
        let requested = match config.requested_backend(operation) {
            Some(backend) => format!("{backend}:{}", config.device_id),
            None => "cpu".to_owned(),
        };
        let reason = (requested != "cpu").then(|| {
            format!("this build runs on the cpu only, so {requested} is not available")
        });
        DeviceState {
            requested,
            active: "cpu".to_owned(),
            reason,
        }
    }

    /// The state of one operation.
    pub fn get(&self, operation: Operation) -> Option<&DeviceState> {
        self.states
            .iter()
            .find_map(|(known, state)| (*known == operation).then_some(state))
    }

    /// Every operation with its state.
    pub fn iter(&self) -> impl Iterator<Item = (Operation, &DeviceState)> {
        self.states.iter().map(|(operation, state)| (*operation, state))
    }
}
