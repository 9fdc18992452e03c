//! Names and memory of devices, as their drivers report them now.

use std::{fs, path::PathBuf};

use nvml_wrapper::{Device, Nvml};
use serde::Serialize;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};
use utoipa::ToSchema;

use crate::placement::{DevicePlacement, Provider};

/// A device and its current memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct DeviceMemory {
    /// The device, such as `cuda:0`.
    #[schema(example = "cuda:0")]
    pub id: String,
    /// The name that its driver reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bytes in use by all processes; absent if the driver does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<u64>,
    /// Total bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total: Option<u64>,
}

/// The drivers that report on devices.
pub struct Hardware {
    /// NVIDIA's driver library, if it is installed.
    nvml: Option<Nvml>,
}

impl Hardware {
    /// Looks for the drivers' libraries.
    pub fn find() -> Self {
        Self {
            nvml: Nvml::init().ok(),
        }
    }

    /// Returns the machine's CPU and main memory.
    pub fn cpu(&self) -> DeviceMemory {
        let system = System::new_with_specifics(
            RefreshKind::nothing()
                .with_cpu(CpuRefreshKind::nothing())
                .with_memory(MemoryRefreshKind::nothing().with_ram()),
        );
        DeviceMemory {
            id: "cpu".to_owned(),
            name: system
                .cpus()
                .first()
                .map(|cpu| cpu.brand().trim().to_owned())
                .filter(|brand| !brand.is_empty()),
            memory_used: Some(system.used_memory()),
            memory_total: Some(system.total_memory()),
        }
    }

    /// Returns the report of a device. Values that its driver does not report are absent.
    pub fn of(&self, placement: DevicePlacement) -> DeviceMemory {
        let report = match placement.provider {
            Provider::Cuda | Provider::Tensorrt | Provider::TorchCuda => {
                self.nvidia(placement.index)
            }
            Provider::Migraphx => amd(placement.index),
            Provider::Cpu
            | Provider::OpenvinoCpu
            | Provider::TorchCpu
            // All units of Apple's processors share the main memory.
            | Provider::TorchMps
            | Provider::Coreml => Some(self.cpu()),
            Provider::Openvino | Provider::Webgpu | Provider::Kserve => None,
        };
        DeviceMemory {
            id: placement.to_string(),
            ..report.unwrap_or_default()
        }
    }

    fn nvidia(&self, index: u32) -> Option<DeviceMemory> {
        let device = self.nvidia_device(index)?;
        let memory = device.memory_info().ok()?;
        Some(DeviceMemory {
            name: device.name().ok(),
            memory_used: Some(memory.used),
            memory_total: Some(memory.total),
            ..DeviceMemory::default()
        })
    }

    /// Returns the driver's device for a CUDA number. CUDA numbers only the devices in `CUDA_VISIBLE_DEVICES`, in that
    /// order. The driver numbers all devices.
    fn nvidia_device(&self, index: u32) -> Option<Device<'_>> {
        let nvml = self.nvml.as_ref()?;
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
        match visible_device(&visible, index)? {
            Visible::Number(number) => nvml.device_by_index(number).ok(),
            Visible::Uuid(uuid) => nvml.device_by_uuid(uuid).ok(),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Visible<'a> {
    Number(u32),
    Uuid(&'a str),
}

/// Returns the driver's identifier of the `index`th visible device.
fn visible_device(visible: &str, index: u32) -> Option<Visible<'_>> {
    if visible.trim().is_empty() {
        return Some(Visible::Number(index));
    }
    let entry = visible.split(',').nth(index as usize)?.trim();
    Some(match entry.parse() {
        Ok(number) => Visible::Number(number),
        Err(_) => Visible::Uuid(entry),
    })
}

/// Returns the kernel's figures of the `index`th AMD device, which need no library.
fn amd(index: u32) -> Option<DeviceMemory> {
    let mut cards: Vec<PathBuf> = fs::read_dir("/sys/class/drm")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("device")))
        .filter(|device| device.join("mem_info_vram_total").exists())
        // Several connectors of a card link to the same device.
        .filter_map(|device| device.canonicalize().ok())
        .collect();
    cards.sort();
    cards.dedup();
    let card = cards.get(index as usize)?;
    let text = |file: &str| -> Option<String> {
        let text = fs::read_to_string(card.join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    Some(DeviceMemory {
        name: text("product_name"),
        memory_used: text("mem_info_vram_used").and_then(|bytes| bytes.parse().ok()),
        memory_total: text("mem_info_vram_total").and_then(|bytes| bytes.parse().ok()),
        ..DeviceMemory::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Precision;

    #[test]
    fn device_numbers_follow_cuda_visible_devices() {
        assert_eq!(visible_device("", 1), Some(Visible::Number(1)));
        assert_eq!(visible_device("3, 0", 1), Some(Visible::Number(0)));
        assert_eq!(visible_device("GPU-1f", 0), Some(Visible::Uuid("GPU-1f")));
        assert_eq!(visible_device("3", 1), None);
    }

    #[test]
    fn the_main_memory_is_reported_for_the_cpu_and_for_apples_gpus() {
        let hardware = Hardware::find();
        let of = |provider| hardware.of(DevicePlacement::first(provider, Precision::Full));
        for device in [hardware.cpu(), of(Provider::TorchMps)] {
            let (used, total) = (device.memory_used.unwrap(), device.memory_total.unwrap());
            assert!(0 < used && used < total, "{device:?}");
        }
        assert_eq!(of(Provider::Kserve).memory_total, None);
    }
}
