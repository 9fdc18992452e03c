//! The accelerators that settings can name.

use std::fmt;

use serde::{Deserialize, Serialize, de::IntoDeserializer};

/// An accelerator, or how to choose one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// The first provider that passes its self-test.
    Auto,
    /// NVIDIA CUDA.
    Cuda,
    /// AMD ROCm, which ONNX Runtime drives through MIGraphX.
    Rocm,
    /// Apple Metal: through libtorch if it is built in, otherwise through CoreML.
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
    /// libtorch, on any device that it supports.
    Torch,
}

impl fmt::Display for Accelerator {
    /// Writes the name in the configuration, such as `cuda`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// An accelerator by name, optionally with a device number that overrides `devices.device_id`: `cuda` or `cuda:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AcceleratorName {
    /// The accelerator.
    pub backend: Accelerator,
    /// The device number.
    pub index: Option<u32>,
}

impl TryFrom<String> for AcceleratorName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let unreadable = || format!("`{text}` is not a device");
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, Some(index.parse().map_err(|_| unreadable())?)),
            None => (text.as_str(), None),
        };
        let name: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
            name.into_deserializer();
        Ok(Self {
            backend: Accelerator::deserialize(name).map_err(|_| unreadable())?,
            index,
        })
    }
}

impl From<AcceleratorName> for String {
    fn from(name: AcceleratorName) -> Self {
        match name.index {
            Some(index) => format!("{}:{index}", name.backend),
            None => name.backend.to_string(),
        }
    }
}
