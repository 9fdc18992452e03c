//! Which operations run on an accelerator, and on which.

use std::fmt;

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
    /// Which accelerator.
    pub backend: Backend,
    /// Which of several, by its number.
    pub device_id: u32,
    /// Most device memory to use, in GiB; `None` leaves it to the backend.
    pub memory_limit_gb: Option<f64>,
    /// Most images or faces in one batch.
    pub batch_size: usize,
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
        }
    }
}

/// Whether each operation asks for the accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toggles {
    /// Finding faces.
    pub face_detection: bool,
    /// Embedding faces.
    pub face_embedding: bool,
    /// Resizing, normalising and cropping.
    pub image_processing: bool,
    /// Enhancing pictures.
    pub image_enhancement: bool,
    /// Measuring quality.
    pub quality_checks: bool,
}

/// An accelerator, or how to choose one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The first that passes its self-test.
    Auto,
    /// NVIDIA CUDA.
    Cuda,
    /// AMD ROCm, which ONNX Runtime drives through MIGraphX.
    Rocm,
    /// Apple Metal, which ONNX models reach through CoreML.
    Mps,
    /// No accelerator.
    Cpu,
    /// AMD MIGraphX.
    Migraphx,
    /// Apple CoreML.
    Coreml,
    /// Intel OpenVINO.
    Openvino,
    /// WebGPU.
    Webgpu,
    /// NVIDIA TensorRT.
    Tensorrt,
}

impl Backend {
    /// The name in the configuration, such as `cuda`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::Mps => "mps",
            Self::Cpu => "cpu",
            Self::Migraphx => "migraphx",
            Self::Coreml => "coreml",
            Self::Openvino => "openvino",
            Self::Webgpu => "webgpu",
            Self::Tensorrt => "tensorrt",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const TOGGLE: &str = "true, false or null (null = follow all_gpu)";

pub(super) const RULES: &[Rule] = &[
    Rule::typed("devices.all_gpu", Kind::Flag, "true or false"),
    Rule::typed("devices.face_detection", Kind::Flag, TOGGLE),
    Rule::typed("devices.face_embedding", Kind::Flag, TOGGLE),
    Rule::typed("devices.image_processing", Kind::Flag, TOGGLE),
    Rule::typed("devices.image_enhancement", Kind::Flag, TOGGLE),
    Rule::typed("devices.quality_checks", Kind::Flag, TOGGLE),
    Rule::typed(
        "devices.backend",
        Kind::Choice,
        "auto, cuda, rocm, mps, cpu, migraphx, coreml, openvino, webgpu or tensorrt",
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
];
