//! Which operations run on an accelerator, and on which.

use std::{num::NonZeroU64, time::Duration};

use facescan_inference::{
    accelerator::{Accelerator, AcceleratorName},
    operation::Operation,
};
use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};

/// Section `devices`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Devices {
    /// What the toggles that are `None` follow.
    pub all_gpu: bool,
    /// Whether faces are found on the accelerator.
    pub face_detection: Option<bool>,
    /// Whether faces are embedded on the accelerator.
    pub face_embedding: Option<bool>,
    /// Whether pictures are resized, normalised and cropped on the accelerator.
    pub image_processing: Option<bool>,
    /// Whether pictures are enhanced on the accelerator.
    pub image_enhancement: Option<bool>,
    /// Whether quality is measured on the accelerator.
    pub quality_checks: Option<bool>,
    /// Whether whole pictures are embedded on the accelerator.
    pub image_embedding: Option<bool>,
    /// Which accelerator.
    pub backend: Accelerator,
    /// Which of several, by its number.
    pub device_id: u32,
    /// Most device memory to use, in GiB; `None` leaves it to the backend.
    pub memory_limit_gb: Option<f64>,
    /// Most images or faces in one batch.
    pub batch_size: usize,
    /// Where faces are found, in the place of `backend` and `device_id`.
    pub face_detection_on: Option<AcceleratorName>,
    /// Where faces are embedded.
    pub face_embedding_on: Option<AcceleratorName>,
    /// Where pictures are resized, normalised and cropped.
    pub image_processing_on: Option<AcceleratorName>,
    /// Where pictures are enhanced.
    pub image_enhancement_on: Option<AcceleratorName>,
    /// Where quality is measured.
    pub quality_checks_on: Option<AcceleratorName>,
    /// Where whole pictures are embedded.
    pub image_embedding_on: Option<AcceleratorName>,
    /// Runs in a row that fail before a device is let alone.
    pub failures_to_trip: u32,
    /// How long it is let alone the first time.
    pub cool_down_ms: u64,
    /// The longest that it is let alone.
    pub longest_cool_down_ms: u64,
    /// How long a run may take before the device counts as hung.
    pub run_timeout_ms: u64,
    /// One batch in so many has a row repeated on the CPU; 0 for none.
    pub check_every: u64,
}

impl Devices {
    /// The toggles with `all_gpu` filled in: a toggle that is set wins, whichever layer either came from.
    pub fn toggles(&self) -> Toggles {
        let on = |toggle: Option<bool>| toggle.unwrap_or(self.all_gpu);
        Toggles {
            face_detection: on(self.face_detection),
            face_embedding: on(self.face_embedding),
            image_processing: on(self.image_processing),
            image_enhancement: on(self.image_enhancement),
            quality_checks: on(self.quality_checks),
            image_embedding: on(self.image_embedding),
        }
    }
}

impl Devices {
    /// Where the settings ask an operation to run. `None` is the CPU: the toggle is off, or the CPU is asked for by
    /// name.
    pub fn requested(&self, operation: Operation) -> Option<(Accelerator, u32)> {
        let toggles = self.toggles();
        let (is_on, own) = match operation {
            Operation::FaceDetection => (toggles.face_detection, self.face_detection_on),
            Operation::FaceEmbedding => (toggles.face_embedding, self.face_embedding_on),
            Operation::ImageProcessing => (toggles.image_processing, self.image_processing_on),
            Operation::ImageEnhancement => (toggles.image_enhancement, self.image_enhancement_on),
            Operation::QualityChecks => (toggles.quality_checks, self.quality_checks_on),
            Operation::ImageEmbedding => (toggles.image_embedding, self.image_embedding_on),
        };
        let accelerator = own.map_or(self.backend, |own| own.backend);
        let index = own.and_then(|own| own.index).unwrap_or(self.device_id);
        // The CPU for all is the CPU whatever else is set.
        let is_cpu = self.backend == Accelerator::Cpu || accelerator == Accelerator::Cpu;
        (is_on && !is_cpu).then_some((accelerator, index))
    }

    /// The memory limit in bytes.
    pub fn memory_limit(&self) -> Option<u64> {
        self.memory_limit_gb
            .map(|gib| (gib * (1u64 << 30) as f64) as u64)
    }

    /// How long a device is let alone the first time, and at most.
    pub fn cool_downs(&self) -> (Duration, Duration) {
        (
            Duration::from_millis(self.cool_down_ms),
            Duration::from_millis(self.longest_cool_down_ms),
        )
    }

    /// How long a run may take.
    pub fn run_timeout(&self) -> Duration {
        Duration::from_millis(self.run_timeout_ms)
    }

    /// One batch in so many is checked.
    pub fn check_every(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.check_every)
    }
}

/// Whether each operation asks for the accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toggles {
    /// Finding faces.
    pub face_detection: bool,
    /// Embedding faces.
    pub face_embedding: bool,
    /// Resizing, normalising and blurring.
    pub image_processing: bool,
    /// Enhancing pictures.
    pub image_enhancement: bool,
    /// Measuring quality.
    pub quality_checks: bool,
    /// Embedding whole pictures.
    pub image_embedding: bool,
}

const DEVICE: &str =
    "a backend, alone or with a number such as cuda:1, or null (null = devices.backend)";
const TOGGLE: &str = "true, false or null (null = follow all_gpu)";

pub(super) const RULES: &[Rule] = &[
    Rule::typed("devices.all_gpu", Kind::Flag, "true or false"),
    Rule::typed("devices.face_detection", Kind::Flag, TOGGLE),
    Rule::typed("devices.face_embedding", Kind::Flag, TOGGLE),
    Rule::typed("devices.image_processing", Kind::Flag, TOGGLE),
    Rule::typed("devices.image_enhancement", Kind::Flag, TOGGLE),
    Rule::typed("devices.quality_checks", Kind::Flag, TOGGLE),
    Rule::typed("devices.image_embedding", Kind::Flag, TOGGLE),
    Rule::typed(
        "devices.backend",
        Kind::Choice,
        "auto, cuda, rocm, mps, cpu, migraphx, coreml, openvino, webgpu, tensorrt or torch",
    ),
    Rule::checked(
        "devices.device_id",
        Kind::Yaml,
        "a whole number from 0 to 255",
        |c| c.devices.device_id <= 255,
    ),
    Rule::checked(
        "devices.memory_limit_gb",
        Kind::Yaml,
        "a number above 0 and at most 4096, or null",
        |c| {
            c.devices
                .memory_limit_gb
                .is_none_or(|gib| gib > 0.0 && gib <= 4096.0)
        },
    ),
    Rule::checked(
        "devices.batch_size",
        Kind::Yaml,
        "a whole number from 1 to 1024",
        |c| (1..=1024).contains(&c.devices.batch_size),
    ),
    Rule::typed("devices.face_detection_on", Kind::Text, DEVICE),
    Rule::typed("devices.face_embedding_on", Kind::Text, DEVICE),
    Rule::typed("devices.image_processing_on", Kind::Text, DEVICE),
    Rule::typed("devices.image_enhancement_on", Kind::Text, DEVICE),
    Rule::typed("devices.quality_checks_on", Kind::Text, DEVICE),
    Rule::typed("devices.image_embedding_on", Kind::Text, DEVICE),
    Rule::checked(
        "devices.failures_to_trip",
        Kind::Yaml,
        "a whole number from 1 to 1000",
        |c| (1..=1000).contains(&c.devices.failures_to_trip),
    ),
    Rule::checked(
        "devices.cool_down_ms",
        Kind::Yaml,
        "a whole number from 1 to 3600000",
        |c| (1..=3_600_000).contains(&c.devices.cool_down_ms),
    ),
    Rule::checked(
        "devices.longest_cool_down_ms",
        Kind::Yaml,
        "a whole number from cool_down_ms to 86400000",
        |c| (c.devices.cool_down_ms..=86_400_000).contains(&c.devices.longest_cool_down_ms),
    ),
    Rule::checked(
        "devices.run_timeout_ms",
        Kind::Yaml,
        "a whole number from 1 to 3600000",
        |c| (1..=3_600_000).contains(&c.devices.run_timeout_ms),
    ),
    Rule::checked(
        "devices.check_every",
        Kind::Yaml,
        "a whole number from 0 to 1000000000 (0 = never)",
        |c| c.devices.check_every <= 1_000_000_000,
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{Config, Sources};

    fn asked(settings: &[(&str, &str)]) -> Vec<Option<(Accelerator, u32)>> {
        let environment: BTreeMap<String, String> = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let sources = Sources {
            environment,
            ..Sources::default()
        };
        let devices = Config::load(&sources).unwrap().0.devices;
        Operation::ALL
            .into_iter()
            .map(|operation| devices.requested(operation))
            .collect()
    }

    #[test]
    fn without_toggles_everything_is_asked_of_the_cpu() {
        assert_eq!(asked(&[("GPU_BACKEND", "cuda")]), [None; 6]);
    }

    #[test]
    fn a_toggle_asks_for_the_device_and_one_of_its_own_wins() {
        let asked = asked(&[
            ("ALL_GPU", "1"),
            ("FACE_EMBEDDING_GPU", "0"),
            ("GPU_BACKEND", "cuda"),
            ("GPU_DEVICE_ID", "2"),
            ("FACESCAN__DEVICES__IMAGE_PROCESSING_ON", "webgpu"),
            ("FACESCAN__DEVICES__IMAGE_ENHANCEMENT_ON", "cuda:5"),
            ("FACESCAN__DEVICES__QUALITY_CHECKS_ON", "cpu"),
        ]);
        assert_eq!(
            asked,
            [
                Some((Accelerator::Cuda, 2)),
                None,
                Some((Accelerator::Webgpu, 2)),
                Some((Accelerator::Cuda, 5)),
                None,
                Some((Accelerator::Cuda, 2)),
            ]
        );
    }

    #[test]
    fn the_cpu_for_all_is_the_cpu_whatever_else_is_set() {
        let asked = asked(&[
            ("ALL_GPU", "1"),
            ("GPU_BACKEND", "cpu"),
            ("FACESCAN__DEVICES__FACE_DETECTION_ON", "cuda:1"),
        ]);
        assert_eq!(asked, [None; 6]);
    }
}
