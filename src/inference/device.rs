//! Which device each operation was asked to run on, and which one it runs on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    config::{self, Backend},
    inference::operation::Operation,
};

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
    pub fn from_config(config: &config::Devices) -> Self {
        let states = Operation::ALL
            .into_iter()
            .map(|operation| (operation, Self::decide(config, operation)))
            .collect();
        Self { states }
    }

    fn decide(config: &config::Devices, operation: Operation) -> DeviceState {
        let toggles = config.toggles();
        let on = match operation {
            Operation::FaceDetection => toggles.face_detection,
            Operation::FaceEmbedding => toggles.face_embedding,
            Operation::ImageProcessing => toggles.image_processing,
            Operation::ImageEnhancement => toggles.image_enhancement,
            Operation::QualityChecks => toggles.quality_checks,
        };
        let requested = match config.backend {
            backend if on && backend != Backend::Cpu => format!("{backend}:{}", config.device_id),
            _ => "cpu".to_owned(),
        };
        let reason = (requested != "cpu")
            .then(|| format!("this build runs on the cpu only, so {requested} is not available"));
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
        self.states
            .iter()
            .map(|(operation, state)| (*operation, state))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{Config, Sources};

    fn devices(settings: &[(&str, &str)]) -> Devices {
        let environment: BTreeMap<String, String> = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let sources = Sources {
            environment,
            ..Sources::default()
        };
        Devices::from_config(&Config::load(&sources).unwrap().0.devices)
    }

    #[test]
    fn without_toggles_everything_is_asked_of_the_cpu() {
        let devices = devices(&[("GPU_BACKEND", "cuda")]);
        assert!(
            devices
                .iter()
                .all(|(_, state)| !state.fell_back() && state.reason.is_none())
        );
    }

    #[test]
    fn a_toggle_asks_for_the_device_and_the_fallback_says_why() {
        let devices = devices(&[
            ("FACE_DETECTION_GPU", "1"),
            ("GPU_BACKEND", "cuda"),
            ("GPU_DEVICE_ID", "2"),
        ]);
        let detection = devices.get(Operation::FaceDetection).unwrap();
        assert_eq!(
            (detection.requested.as_str(), detection.active.as_str()),
            ("cuda:2", "cpu")
        );
        assert!(detection.reason.as_ref().unwrap().contains("cuda:2"));
        assert!(!devices.get(Operation::FaceEmbedding).unwrap().fell_back());
    }

    #[test]
    fn the_cpu_backend_wins_over_every_toggle() {
        let devices = devices(&[("ALL_GPU", "true"), ("GPU_BACKEND", "cpu")]);
        assert!(devices.iter().all(|(_, state)| !state.fell_back()));
    }
}
