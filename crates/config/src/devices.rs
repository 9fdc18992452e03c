//! The operations that run on an accelerator, and the accelerator of each.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::{collections::BTreeMap, num::NonZeroU64};

use facescan_inference::{
    accelerator::{Accelerator, AcceleratorName},
    device_task::DeviceTask,
};
use garde::Validate;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Error, Value, from_value, json};

use super::milliseconds::Milliseconds;

/// Section `devices`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Devices {
    #[garde(skip)]
    pub all_gpu: bool,
    /// The toggle `{operation}` and the setting `{operation}_on` of every operation.
    #[garde(skip)]
    #[serde(
        flatten,
        serialize_with = "serialize_operations",
        deserialize_with = "deserialize_operations"
    )]
    pub operations: BTreeMap<DeviceTask, OperationDevice>,
    #[garde(skip)]
    pub backend: Accelerator,
    #[garde(range(max = 255))]
    pub device_id: u32,
    #[garde(range(min = f64::MIN_POSITIVE, max = 4096.0))]
    pub memory_limit_gb: Option<f64>,
    #[garde(range(min = 1, max = 1024))]
    pub batch_size: usize,
    #[garde(range(min = 1, max = 1000))]
    pub breaker_failures: u32,
    #[garde(range(min = 1, max = 3_600_000))]
    pub breaker_cooldown_ms: Milliseconds,
    #[garde(range(min = self.breaker_cooldown_ms.0, max = 86_400_000))]
    pub breaker_max_cooldown_ms: Milliseconds,
    #[garde(range(min = 1, max = 3_600_000))]
    pub run_timeout_ms: Milliseconds,
    #[garde(range(max = 1_000_000_000))]
    pub check_interval_batches: u64,
}

/// The settings of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OperationDevice {
    /// The toggle. `None` follows `all_gpu`.
    pub gpu: Option<bool>,
    /// The device. It replaces `backend` and `device_id`.
    pub on: Option<AcceleratorName>,
}

impl Devices {
    /// Returns the accelerator that the settings select for an operation, and its index. Returns `None` if the
    /// operation runs on the CPU, because its toggle is off or the settings name the CPU.
    pub fn requested(&self, operation: DeviceTask) -> Option<(Accelerator, u32)> {
        let (accelerator, index) = self.accelerator(operation);
        // If `backend` is the CPU, every operation runs on the CPU.
        let is_cpu = self.backend == Accelerator::Cpu || accelerator == Accelerator::Cpu;
        (self.is_on(operation) && !is_cpu).then_some((accelerator, index))
    }

    /// Returns whether the toggle of an operation is on. The operation's toggle overrides `all_gpu`, even if `all_gpu`
    /// is in a later layer.
    pub fn is_on(&self, operation: DeviceTask) -> bool {
        self.of(operation).gpu.unwrap_or(self.all_gpu)
    }

    /// Returns the accelerator of an operation and its index, regardless of the toggle.
    pub fn accelerator(&self, operation: DeviceTask) -> (Accelerator, u32) {
        match self.of(operation).on {
            Some(own) => (own.backend, own.index.unwrap_or(self.device_id)),
            None => (self.backend, self.device_id),
        }
    }

    fn of(&self, operation: DeviceTask) -> OperationDevice {
        self.operations.get(&operation).copied().unwrap_or_default()
    }

    /// Returns the memory limit in bytes.
    pub fn memory_limit(&self) -> Option<u64> {
        let bytes = |gib| (gib * (1u64 << 30) as f64) as u64;
        self.memory_limit_gb.map(bytes)
    }

    /// Returns the interval of checks in batches. `None` checks no batch.
    pub fn check_interval(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.check_interval_batches)
    }
}

type Operations = BTreeMap<DeviceTask, OperationDevice>;

fn serialize_operations<S: Serializer>(
    operations: &Operations,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let toggles = operations
        .iter()
        .map(|(operation, own)| (operation.name().to_owned(), json!(own.gpu)));
    let devices = operations
        .iter()
        .map(|(operation, own)| (device_key(*operation), json!(own.on)));
    serializer.collect_map(toggles.chain(devices))
}

fn deserialize_operations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Operations, D::Error> {
    let mut values = BTreeMap::<String, Value>::deserialize(deserializer)?;
    let mut take = |key: &str| values.remove(key).unwrap_or_default();
    let of = |operation: DeviceTask| {
        let (gpu, on) = (take(operation.name()), take(&device_key(operation)));
        Ok((
            operation,
            OperationDevice {
                gpu: from_value(gpu)?,
                on: from_value(on)?,
            },
        ))
    };
    let operations: Result<_, Error> = DeviceTask::ALL.into_iter().map(of).collect();
    operations.map_err(D::Error::custom)
}

fn device_key(operation: DeviceTask) -> String {
    format!("{}_on", operation.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the accelerator of each operation that has one.
    fn requested(settings: &[(&str, &str)]) -> BTreeMap<DeviceTask, (Accelerator, u32)> {
        let devices = crate::tests::load(settings).unwrap().devices;
        DeviceTask::ALL
            .into_iter()
            .filter_map(|operation| Some((operation, devices.requested(operation)?)))
            .collect()
    }

    #[test]
    fn without_toggles_every_operation_runs_on_the_cpu() {
        assert_eq!(requested(&[("GPU_BACKEND", "cuda")]), BTreeMap::new());
    }

    #[test]
    fn a_toggle_selects_the_device_and_overrides_all_gpu() {
        let mut requested = requested(&[
            ("ALL_GPU", "1"),
            ("FACE_EMBEDDING_GPU", "0"),
            ("GPU_BACKEND", "cuda"),
            ("GPU_DEVICE_ID", "2"),
            ("FACESCAN__DEVICES__IMAGE_PROCESSING_ON", "webgpu"),
            ("FACESCAN__DEVICES__IMAGE_ENHANCEMENT_ON", "cuda:5"),
            ("FACESCAN__DEVICES__QUALITY_CHECKS_ON", "cpu"),
        ]);
        let mut take = |operation| requested.remove(&operation);
        assert_eq!(take(DeviceTask::FaceEmbedding), None, "its toggle is off");
        assert_eq!(take(DeviceTask::QualityChecks), None, "it names the CPU");
        let webgpu = Some((Accelerator::Webgpu, 2));
        assert_eq!(take(DeviceTask::ImageProcessing), webgpu);
        let fifth = Some((Accelerator::Cuda, 5));
        assert_eq!(take(DeviceTask::ImageEnhancement), fifth);
        // All others follow `ALL_GPU`.
        assert_eq!(requested.len(), DeviceTask::ALL.len() - 4);
        assert!(requested.values().all(|on| *on == (Accelerator::Cuda, 2)));
    }

    #[test]
    fn the_cpu_backend_overrides_every_other_setting() {
        let requested = requested(&[
            ("ALL_GPU", "1"),
            ("GPU_BACKEND", "cpu"),
            ("FACESCAN__DEVICES__FACE_DETECTION_ON", "cuda:1"),
        ]);
        assert_eq!(requested, BTreeMap::new());
    }
}
