//! Accelerators by name.

use std::fmt;

use serde::{Deserialize, Serialize, de::IntoDeserializer};

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
    /// Apple Metal, through libtorch where it is built in, else through CoreML.
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
    /// libtorch, on the first device that it finds.
    Torch,
}

impl fmt::Display for Backend {
    /// The name in the configuration, such as `cuda`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// An accelerator by name, with its number where that is not `devices.device_id`: `cuda` or `cuda:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceName {
    /// What it is.
    pub backend: Backend,
    /// Which of several.
    pub index: Option<u32>,
}

impl TryFrom<String> for DeviceName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let unreadable = || format!("`{text}` is no device");
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, Some(index.parse().map_err(|_| unreadable())?)),
            None => (text.as_str(), None),
        };
        let name: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
            name.into_deserializer();
        let backend = Backend::deserialize(name).map_err(|_| unreadable())?;
        Ok(Self { backend, index })
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        match name.index {
            Some(index) => format!("{}:{index}", name.backend),
            None => name.backend.to_string(),
        }
    }
}
