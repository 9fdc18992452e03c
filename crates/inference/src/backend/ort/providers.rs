//! The session options of each provider.

use ort::{
    ep::{self, ArenaExtendStrategy, ExecutionProviderDispatch},
    memory::DeviceType,
    session::builder::SessionBuilder,
};

use super::OrtBackend;
use crate::{
    backend::Opening,
    placement::{DevicePlacement, Precision, Provider},
};

/// The folder of the WebGPU provider, which is a separate library. It is also registered under this name.
const WEBGPU: &str = "webgpu";

impl OrtBackend {
    /// Registers the provider of `opening` and no other. Nodes that it does not support stay on the CPU.
    pub(super) fn with_provider(
        &self,
        builder: SessionBuilder,
        opening: &Opening<'_>,
    ) -> Result<SessionBuilder, String> {
        if opening.placement.provider == Provider::Webgpu {
            return self.with_webgpu(builder, opening.placement);
        }
        builder
            .with_execution_providers(built_in(opening)?)
            .map_err(|error| in_short(error.message()))
    }

    /// Requests WebGPU by device: among the GPUs, the one with the placement's number.
    fn with_webgpu(
        &self,
        builder: SessionBuilder,
        placement: DevicePlacement,
    ) -> Result<SessionBuilder, String> {
        let DevicePlacement {
            provider, index, ..
        } = placement;
        let library = format!(
            "{}onnxruntime_providers_webgpu{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        );
        self.register(WEBGPU, &self.plugins.join(WEBGPU).join(library))?;
        let device = self
            .environment
            .devices()
            .filter(|device| {
                device.ep().is_ok_and(|ep| ep == provider.runtime_name())
                    && device.hardware_device().ty() == DeviceType::GPU
            })
            .nth(index as usize)
            .ok_or_else(|| format!("it offers no device {index} on this machine"))?;
        builder
            .with_devices([device], None)
            .map_err(|error| error.message().to_owned())
    }
}

/// Returns the runtime's message without the location in its source code.
fn in_short(message: &str) -> String {
    let (_, said) = message.rsplit_once(" : FAIL : ").unwrap_or(("", message));
    said.trim().to_owned()
}

/// Returns the options of a provider of the runtime's own library. A failure to register it is an error and never a
/// silent fallback to the CPU.
fn built_in(opening: &Opening<'_>) -> Result<Vec<ExecutionProviderDispatch>, String> {
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
        other @ (Provider::Cpu
        | Provider::Openvino
        | Provider::OpenvinoCpu
        | Provider::Webgpu
        | Provider::TorchCuda
        | Provider::TorchMps
        | Provider::TorchCpu
        | Provider::Kserve) => {
            return Err(format!("onnx runtime's library does not have {other}"));
        }
    };
    Ok(providers
        .into_iter()
        .map(ExecutionProviderDispatch::error_on_failure)
        .collect())
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
