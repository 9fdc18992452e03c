//! Device placements: a provider and one of its devices.

use std::fmt;

use crate::accelerator::Accelerator;
use facescan_imaging::precision::NumericPrecision;

/// Declares each execution provider once, with its name and the runtime's name for it. The enum and the list of all
/// providers follow from it.
macro_rules! providers {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $runtime_name:literal;)+) => {
        /// An execution provider of ONNX Runtime, OpenVINO, libtorch, or a remote server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Provider {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Provider {
            const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name in settings and responses.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the runtime's name of the provider, as in its report of a session's nodes.
            pub fn runtime_name(self) -> &'static str {
                match self {
                    $(Self::$variant => $runtime_name,)+
                }
            }
        }
    };
}

providers! {
    /// The runtime's own kernels.
    Cpu = "cpu", "CPUExecutionProvider";
    /// NVIDIA CUDA.
    Cuda = "cuda", "CUDAExecutionProvider";
    /// NVIDIA TensorRT, with CUDA for the nodes that it does not support.
    Tensorrt = "tensorrt", "TensorrtExecutionProvider";
    /// AMD MIGraphX, the successor of the ROCm provider.
    Migraphx = "migraphx", "MIGraphXExecutionProvider";
    /// Apple CoreML.
    Coreml = "coreml", "CoreMLExecutionProvider";
    /// Intel's GPUs through OpenVINO.
    Openvino = "openvino", "OpenVINO";
    /// The CPU through OpenVINO.
    OpenvinoCpu = "openvino-cpu", "OpenVINO";
    /// WebGPU, a plugin library.
    Webgpu = "webgpu", "WebGpuExecutionProvider";
    /// libtorch on NVIDIA's GPUs.
    TorchCuda = "torch-cuda", "libtorch";
    /// libtorch on Apple's GPUs.
    TorchMps = "torch-mps", "libtorch";
    /// libtorch on the CPU.
    TorchCpu = "torch-cpu", "libtorch";
    /// A remote server, named by a model's entry in the registry. No setting selects it.
    Kserve = "kserve", "remote";
}

impl Provider {
    /// Returns every provider that a machine can have.
    pub fn local() -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(|provider| *provider != Self::Kserve)
    }

    /// Returns the runtime that has the provider.
    pub fn runtime(self) -> Runtime {
        match self {
            Self::Cpu
            | Self::Cuda
            | Self::Tensorrt
            | Self::Migraphx
            | Self::Coreml
            | Self::Webgpu => Runtime::OnnxRuntime,
            Self::Openvino | Self::OpenvinoCpu => Runtime::Openvino,
            Self::TorchCuda | Self::TorchMps | Self::TorchCpu => Runtime::Libtorch,
            Self::Kserve => Runtime::Remote,
        }
    }

    /// Returns whether it computes on the CPU.
    pub fn is_on_cpu(self) -> bool {
        matches!(self, Self::Cpu | Self::OpenvinoCpu | Self::TorchCpu)
    }

    /// Returns the providers to try, in this order, if the settings name `accelerator`. `auto` does not try TensorRT,
    /// because it builds an engine for minutes.
    pub fn candidates(accelerator: Accelerator) -> &'static [Self] {
        match accelerator {
            Accelerator::Auto => &[
                Self::Cuda,
                Self::Migraphx,
                Self::Coreml,
                Self::Openvino,
                Self::Webgpu,
            ],
            Accelerator::Cuda => &[Self::Cuda],
            Accelerator::Rocm | Accelerator::Migraphx => &[Self::Migraphx],
            // In a binary without libtorch, trying it would only add another reason for a failure.
            Accelerator::Mps if cfg!(feature = "torch") => &[Self::TorchMps, Self::Coreml],
            Accelerator::Mps | Accelerator::Coreml => &[Self::Coreml],
            Accelerator::Torch => &[Self::TorchCuda, Self::TorchMps, Self::TorchCpu],
            Accelerator::Openvino => &[Self::Openvino, Self::OpenvinoCpu],
            Accelerator::Webgpu => &[Self::Webgpu],
            Accelerator::Tensorrt => &[Self::Tensorrt],
            Accelerator::Cpu => &[],
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The library that runs models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// ONNX Runtime.
    OnnxRuntime,
    /// OpenVINO.
    Openvino,
    /// libtorch.
    Libtorch,
    /// The runtime of a remote server.
    Remote,
}

/// The precision of the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32-bit floats throughout.
    Full,
    /// The device's fastest precision, such as bf16.
    Reduced,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full precision",
            Self::Reduced => "reduced precision",
        })
    }
}

/// A provider, one of its devices, and a precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DevicePlacement {
    /// The provider.
    pub provider: Provider,
    /// The number of the device.
    pub index: u32,
    /// The precision.
    pub precision: Precision,
}

impl DevicePlacement {
    /// The runtime's own kernels on the CPU.
    pub const CPU: Self = Self::first(Provider::Cpu, Precision::Full);

    /// Returns the first device of a provider.
    pub const fn first(provider: Provider, precision: Precision) -> Self {
        Self {
            provider,
            index: 0,
            precision,
        }
    }

    /// Returns the numeric precision of the placement, or `None` for a remote server, which does not report it.
    ///
    /// CUDA's reduced precision is TF32. It rounds the factors of a product to 11 significant bits, as f16 does, so it
    /// counts as f16.
    pub fn numeric_precision(self) -> Option<NumericPrecision> {
        match (self.provider, self.precision) {
            (Provider::Kserve, _) => None,
            (
                Provider::Cpu | Provider::TorchCpu | Provider::TorchCuda | Provider::TorchMps,
                Precision::Full | Precision::Reduced,
            )
            | (
                Provider::Cuda
                | Provider::Tensorrt
                | Provider::Migraphx
                | Provider::Coreml
                | Provider::Openvino
                | Provider::OpenvinoCpu
                | Provider::Webgpu,
                Precision::Full,
            ) => Some(NumericPrecision::F32),
            (Provider::OpenvinoCpu, Precision::Reduced) => Some(NumericPrecision::Bf16),
            (
                Provider::Cuda
                | Provider::Tensorrt
                | Provider::Migraphx
                | Provider::Coreml
                | Provider::Openvino
                | Provider::Webgpu,
                Precision::Reduced,
            ) => Some(NumericPrecision::F16),
        }
    }
}

impl fmt::Display for DevicePlacement {
    /// Writes `cpu`, or the provider and the device number, such as `cuda:0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.provider {
            provider if provider.is_on_cpu() => f.write_str(provider.name()),
            provider => write!(f, "{provider}:{}", self.index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtorch_needs_its_own_setting_except_on_metal_where_it_is_tried_first() {
        use Provider::{Coreml, TorchCpu, TorchCuda, TorchMps};
        assert_eq!(
            Provider::candidates(Accelerator::Torch),
            [TorchCuda, TorchMps, TorchCpu]
        );
        let metal: &[Provider] = if cfg!(feature = "torch") {
            &[TorchMps, Coreml]
        } else {
            &[Coreml]
        };
        assert_eq!(Provider::candidates(Accelerator::Mps), metal);
        let auto = Provider::candidates(Accelerator::Auto);
        let is_torch = |provider: &Provider| provider.runtime() == Runtime::Libtorch;
        assert!(!auto.iter().any(is_torch));
    }

    #[test]
    fn only_reduced_precision_gives_fewer_bits() {
        use NumericPrecision::{Bf16, F16, F32};
        let at =
            |provider, precision| DevicePlacement::first(provider, precision).numeric_precision();
        for provider in Provider::local() {
            assert_eq!(at(provider, Precision::Full), Some(F32), "{provider}");
        }
        assert_eq!(at(Provider::Cpu, Precision::Reduced), Some(F32));
        assert_eq!(at(Provider::OpenvinoCpu, Precision::Reduced), Some(Bf16));
        assert_eq!(at(Provider::Openvino, Precision::Reduced), Some(F16));
        assert_eq!(at(Provider::Kserve, Precision::Full), None);
    }

    #[test]
    fn a_placement_on_the_cpu_is_shown_without_a_number() {
        let placement = |provider| DevicePlacement::first(provider, Precision::Full);
        assert_eq!(placement(Provider::TorchCpu).to_string(), "torch-cpu");
        assert_eq!(placement(Provider::TorchCuda).to_string(), "torch-cuda:0");
    }
}
