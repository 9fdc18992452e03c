//! How models run on the CPU.

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};

/// Section `cpu`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// What computes there.
    pub provider: CpuProvider,
}

/// What runs models on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuProvider {
    /// OpenVINO for the models that it is faster with and right enough; ONNX Runtime's own kernels for the others.
    Auto,
    /// ONNX Runtime's own kernels.
    Default,
    /// OpenVINO for all models that it is right enough with.
    Openvino,
}

pub(super) const RULES: &[Rule] = &[Rule::typed(
    "cpu.provider",
    Kind::Choice,
    "auto, default or openvino",
)];
