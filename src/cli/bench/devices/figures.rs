//! The figures of each operation, size and toggle, and the conclusions from them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{analysis::Analysis, material::Size};
use crate::cli::bench::report::math::{mean, nearest_rank};
use facescan_inference::{device::DevicesReport, device_task::DeviceTask};

/// The state of the toggles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Toggle {
    /// Every operation runs on the CPU.
    #[serde(rename = "gpu_false")]
    Off,
    /// Every operation uses the device in the settings.
    #[serde(rename = "gpu_true")]
    On,
}

impl Toggle {
    /// Returns the name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "gpu_false",
            Self::On => "gpu_true",
        }
    }
}

/// All figures. `docs/benchmarks/devices.schema.json` describes the report.
#[derive(Debug, Default, Serialize)]
pub struct DevicesFigures {
    pub applications: BTreeMap<Toggle, Application>,
    /// The figures by operation, size and toggle. A toggle that was not measured is absent.
    pub benchmark_results: BTreeMap<DeviceTask, BTreeMap<Size, BTreeMap<Toggle, Cell>>>,
    pub analysis: Analysis,
}

#[derive(Debug, Serialize)]
pub struct Application {
    /// The milliseconds until the application was ready: models loaded and devices proved.
    pub start_ms: f64,
    /// The application's report of its devices at the end.
    pub devices: DevicesReport,
}

/// The figures of one operation at one size with the toggles off or on.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The device that the settings select.
    pub requested: String,
    /// The device in use after the batches.
    pub active: String,
    /// The reason why the CPU is in use although the toggle is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The execution provider of models on the CPU, such as `cpu` or `openvino-cpu`.
    pub cpu_provider: String,
    /// The number of different images, or faces, in the batches.
    pub distinct: usize,
    /// The number of images, or faces, in a batch.
    pub batch_size: usize,
    /// The times of the timed batches.
    #[serde(flatten)]
    pub times: Times,
    /// The number of images, or faces, per second that succeeded in the timed batches.
    pub mean_throughput: f64,
    /// The share of images, or faces, that succeeded in all batches including the warm-up, 0 to 1.
    pub success_rate: f64,
    /// The failures by error code.
    pub errors: BTreeMap<&'static str, Failed>,
    /// The time of the first batch.
    pub first_run_ms: f64,
    /// The time of all warm-up batches, including the first one.
    pub warm_up_ms: f64,
    /// The number of rows that ran on the device in all batches. It is 0 for an operation without rows.
    pub device_rows: u64,
    /// The number of rows in all batches that fell back to the CPU, by reason.
    pub fallback_rows: BTreeMap<&'static str, u64>,
    /// The memory during the timed batches.
    pub memory: Memory,
}

/// The times of batches in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    pub mean_time_ms: f64,
    /// The median. Every percentile is one of the times and not a value between two.
    pub median_time_ms: f64,
    pub p95_time_ms: f64,
    /// The 99th percentile. With fewer than 100 batches it is the longest time.
    pub p99_time_ms: f64,
    pub min_time_ms: f64,
    pub max_time_ms: f64,
    /// All times in order.
    pub times_ms: Vec<f64>,
}

impl Times {
    /// Computes the figures of these times. Returns zeros if there are none.
    pub fn from_times(times_ms: Vec<f64>) -> Self {
        let mut sorted = times_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share| nearest_rank(&sorted, share).unwrap_or_default();
        Self {
            mean_time_ms: mean(&sorted).unwrap_or_default(),
            median_time_ms: at(0.5),
            p95_time_ms: at(0.95),
            p99_time_ms: at(0.99),
            min_time_ms: at(0.0),
            max_time_ms: at(1.0),
            times_ms,
        }
    }

    /// Returns the sum of the times in seconds.
    pub fn seconds(&self) -> f64 {
        self.times_ms.iter().sum::<f64>() / 1e3
    }
}

/// Items that failed with the same error code.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    pub count: usize,
    /// The message of the first error.
    pub first: String,
}

/// Memory. It is read before the timed batches and after each batch.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    /// The resident memory of this process. It includes the images and memory that earlier measurements left.
    pub process_mib: Option<Span>,
    /// The memory of the operation's device that all processes use, if the driver reports it. It is main memory if the
    /// device is the CPU with another execution provider.
    pub device_mib: Option<Span>,
}

/// A quantity in MiB during a period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    pub before: f64,
    pub peak: f64,
    pub after: f64,
}

impl Span {
    pub fn extend(span: &mut Option<Self>, sample: Option<f64>) {
        let Some(now) = sample else {
            return;
        };
        let span = span.get_or_insert(Self {
            before: now,
            peak: now,
            after: now,
        });
        span.peak = span.peak.max(now);
        span.after = now;
    }
}

impl Cell {
    /// Returns whether the operation used a device other than the CPU until the end.
    pub fn is_on_device(&self) -> bool {
        self.active != "cpu"
    }
}

impl DevicesFigures {
    pub fn add(&mut self, operation: DeviceTask, size: Size, toggle: Toggle, cell: Cell) {
        let sizes = self.benchmark_results.entry(operation).or_default();
        sizes.entry(size).or_default().insert(toggle, cell);
    }

    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        let sizes = self.benchmark_results.values().flat_map(BTreeMap::values);
        sizes.flat_map(BTreeMap::values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summarized() {
        let times = Times::from_times((1..=20).rev().map(f64::from).collect());
        assert_eq!(times.mean_time_ms, 10.5);
        assert_eq!(times.median_time_ms, 10.0);
        assert_eq!(times.p95_time_ms, 19.0);
        assert_eq!(times.p99_time_ms, 20.0);
        assert_eq!((times.min_time_ms, times.max_time_ms), (1.0, 20.0));
        assert_eq!(times.times_ms[0], 20.0, "in order");
        assert_eq!(times.seconds(), 0.21);
        let none = Times::from_times(Vec::new());
        assert_eq!((none.mean_time_ms, none.median_time_ms), (0.0, 0.0));
    }

    #[test]
    fn memory_keeps_the_peak_and_skips_missing_samples() {
        let mut span = None;
        Span::extend(&mut span, None);
        assert_eq!(span, None);
        for sample in [Some(5.0), Some(9.0), None, Some(7.0)] {
            Span::extend(&mut span, sample);
        }
        let expected = Span {
            before: 5.0,
            peak: 9.0,
            after: 7.0,
        };
        assert_eq!(span, Some(expected));
    }
}
