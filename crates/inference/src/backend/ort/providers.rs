//! The session options of each provider.

use std::path::{Path, PathBuf};

use ort::{
    ep::{self, ArenaExtendStrategy, ExecutionProviderDispatch},
    memory::DeviceType,
    session::builder::SessionBuilder,
};
use serde_json::json;

use super::OrtBackend;
use crate::{
    backend::Opening,
    placement::{DevicePlacement, Precision, Provider},
};

/// A provider that is a separate library.
#[derive(Clone, Copy)]
enum Plugin {
    Openvino,
    Webgpu,
}

impl Plugin {
    fn of(provider: Provider) -> Option<Self> {
        match provider {
            Provider::Openvino | Provider::OpenvinoCpu => Some(Self::Openvino),
            Provider::Webgpu => Some(Self::Webgpu),
            Provider::Cpu
            | Provider::Cuda
            | Provider::Tensorrt
            | Provider::Migraphx
            | Provider::Coreml
            | Provider::TorchCuda
            | Provider::TorchMps
            | Provider::TorchCpu
            | Provider::Kserve => None,
        }
    }

    /// Returns the name of its folder, under which it is also registered.
    fn name(self) -> &'static str {
        match self {
            Self::Openvino => "openvino",
            Self::Webgpu => "webgpu",
        }
    }

    /// Returns the path where `scripts/setup` puts the library.
    fn library(self, folder: &Path) -> PathBuf {
        let stem = match self {
            Self::Openvino => "onnxruntime_providers_openvino_plugin",
            Self::Webgpu => "onnxruntime_providers_webgpu",
        };
        folder.join(self.name()).join(format!(
            "{}{stem}{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        ))
    }
}

impl OrtBackend {
    /// Registers the provider of `opening` and no other. Nodes that it does not support stay on the CPU.
    pub(super) fn with_provider(
        &self,
        builder: SessionBuilder,
        opening: &Opening<'_>,
    ) -> Result<SessionBuilder, String> {
        if opening.placement.provider.is_torch() {
            return Err("onnx runtime runs nothing on libtorch".to_owned());
        }
        match Plugin::of(opening.placement.provider) {
            Some(plugin) => self.with_plugin(builder, opening, plugin),
            None => builder
                .with_execution_providers(built_in(opening))
                .map_err(|error| in_short(error.message())),
        }
    }

    /// Requests a plugin by device: among the devices of the requested kind, the one with the placement's number.
    fn with_plugin(
        &self,
        builder: SessionBuilder,
        opening: &Opening<'_>,
        plugin: Plugin,
    ) -> Result<SessionBuilder, String> {
        let DevicePlacement {
            provider, index, ..
        } = opening.placement;
        self.register(plugin.name(), &plugin.library(&self.plugins))?;
        let kind = if provider.is_on_cpu() {
            DeviceType::CPU
        } else {
            DeviceType::GPU
        };
        let device = self
            .environment
            .devices()
            .filter(|device| {
                device.ep().is_ok_and(|ep| ep == provider.runtime_name())
                    && device.hardware_device().ty() == kind
            })
            .nth(index as usize)
            .ok_or_else(|| {
                let makers = match plugin {
                    Plugin::Webgpu => "",
                    Plugin::Openvino => " (OpenVINO's plugin supports only Intel's processors)",
                };
                format!("it offers no device {index} on this machine{makers}")
            })?;
        let options = match plugin {
            Plugin::Webgpu => Vec::new(),
            Plugin::Openvino => vec![(
                // The runtime ignores an option without the provider's name as a prefix.
                format!("{}.load_config", provider.runtime_name()),
                openvino_config(opening).to_string(),
            )],
        };
        builder
            .with_devices([device], Some(&options))
            .map_err(|error| error.message().to_owned())
    }
}

/// Returns the runtime's message without the location in its source code.
fn in_short(message: &str) -> String {
    let (_, said) = message.rsplit_once(" : FAIL : ").unwrap_or(("", message));
    said.trim().to_owned()
}

/// Returns OpenVINO's options for a device. On machines with AMX, OpenVINO computes in bf16 unless the precision is
/// set.
fn openvino_config(opening: &Opening<'_>) -> serde_json::Value {
    let mut settings = json!({});
    if opening.placement.provider.is_on_cpu() {
        settings["INFERENCE_NUM_THREADS"] = json!(opening.threads.to_string());
        settings["NUM_STREAMS"] = json!("1");
        // With pinning, the threads of all sessions would share the first cores.
        settings["ENABLE_CPU_PINNING"] = json!("NO");
        settings["INFERENCE_PRECISION_HINT"] = json!(match opening.placement.precision {
            Precision::Full => "f32",
            Precision::Reduced => "bf16",
        });
        return json!({ "CPU": settings });
    }
    settings["INFERENCE_PRECISION_HINT"] = json!(match opening.placement.precision {
        Precision::Full => "f32",
        Precision::Reduced => "f16",
    });
    json!({ "GPU": settings })
}

/// Registers a provider of the runtime's own library. A failure is an error and never a silent fallback to the CPU.
fn built_in(opening: &Opening<'_>) -> Vec<ExecutionProviderDispatch> {
    let index = i32::try_from(opening.placement.index).unwrap_or(i32::MAX);
    let limit = opening
        .memory_limit
        .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let providers = match opening.placement.provider {
        Provider::Cuda => vec![cuda(index, limit, opening.placement.precision).build()],
        Provider::Tensorrt => {
            let mut tensorrt = ep::TensorRT::default()
                .with_device_id(index)
                .with_fp16(opening.placement.precision == Precision::Reduced);
            if let Some(limit) = limit {
                tensorrt = tensorrt.with_max_workspace_size(limit);
            }
            vec![
                tensorrt.build(),
                cuda(index, limit, opening.placement.precision).build(),
            ]
        }
        Provider::Migraphx => {
            let mut migraphx = ep::MIGraphX::default()
                .with_device_id(index)
                .with_fp16(opening.placement.precision == Precision::Reduced)
                .with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested);
            if let Some(limit) = limit {
                migraphx = migraphx.with_mem_limit(limit);
            }
            vec![migraphx.build()]
        }
        Provider::Coreml => vec![ep::CoreML::default().build()],
        Provider::Cpu
        | Provider::Openvino
        | Provider::OpenvinoCpu
        | Provider::Webgpu
        | Provider::TorchCuda
        | Provider::TorchMps
        | Provider::TorchCpu
        | Provider::Kserve => Vec::new(),
    };
    providers
        .into_iter()
        .map(ExecutionProviderDispatch::error_on_failure)
        .collect()
}

/// Returns CUDA's options. TF32 has 10 bits of mantissa, so it is the reduced precision here. The arena grows by the
/// requested size, because doubling would take twice what the shapes in use need.
fn cuda(index: i32, limit: Option<usize>, precision: Precision) -> ep::CUDA {
    let cuda = ep::CUDA::default()
        .with_device_id(index)
        .with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested)
        .with_conv_algorithm_search(ep::cuda::ConvAlgorithmSearch::Heuristic)
        .with_tf32(precision == Precision::Reduced);
    match limit {
        Some(limit) => cuda.with_memory_limit(limit),
        None => cuda,
    }
}
