//! What is found: the figures of each operation, size and toggle, and what follows from them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    analysis::{Analysis, analyse},
    material::Size,
};
use crate::cli::bench::report::maths::{mean, nearest_rank};
use facescan_inference::{device::DevicesReport, operation::Operation};

/// Whether the toggles are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Toggle {
    /// Every operation runs on the CPU.
    #[serde(rename = "gpu_false")]
    Off,
    /// Every operation asks for the settings' device.
    #[serde(rename = "gpu_true")]
    On,
}

impl Toggle {
    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "gpu_false",
            Self::On => "gpu_true",
        }
    }
}

/// Everything that was found. `docs/benchmarks/devices.schema.json` describes the report.
#[derive(Debug, Default, Serialize)]
pub struct DevicesFigures {
    /// The applications that were measured.
    pub applications: BTreeMap<Toggle, Application>,
    /// The figures by operation, size and toggle.
    pub benchmark_results: BTreeMap<Operation, BTreeMap<Size, Pair>>,
    /// What follows from them.
    pub analysis: Analysis,
}

/// An application that was measured.
#[derive(Debug, Serialize)]
pub struct Application {
    /// Milliseconds until it was ready: models opened, and devices proved.
    pub start_ms: f64,
    /// What it said of its devices at the end.
    pub devices: DevicesReport,
}

/// The same work with the toggles off and on; what was not measured is absent.
#[derive(Debug, Default, Serialize)]
pub struct Pair {
    /// On the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_false: Option<Cell>,
    /// On the device, where the operation has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_true: Option<Cell>,
}

/// What one operation did at one size with the toggles off or on.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The device that the settings ask for.
    pub requested: String,
    /// The device in use when the batches were through.
    pub active: String,
    /// Why that is the CPU though the toggle is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What runs models on the CPU, such as `cpu` or `openvino-cpu`.
    pub cpu_provider: String,
    /// How many different pictures, or faces, the batches were made of.
    pub distinct: usize,
    /// Pictures, or faces, in a batch.
    pub batch_size: usize,
    /// The times of the timed batches.
    #[serde(flatten)]
    pub times: Times,
    /// Pictures, or faces, that succeeded in the timed batches, by the seconds that these took.
    pub mean_throughput: f64,
    /// The share of pictures, or faces, that succeeded in all batches, the warm-up's too: 0 to 1.
    pub success_rate: f64,
    /// Those that did not, by the error's code.
    pub errors: BTreeMap<&'static str, Failed>,
    /// The time of the very first batch.
    pub first_run_ms: f64,
    /// The time of all batches of the warm-up, the first one's too.
    pub warm_up_ms: f64,
    /// Rows that ran on the device in all batches; 0 for an operation that runs none.
    pub device_rows: u64,
    /// Rows of all batches that were meant for the device and ran on the CPU, by reason.
    pub fallback_rows: BTreeMap<&'static str, u64>,
    /// Memory around the timed batches.
    pub memory: Memory,
}

/// The times of batches, in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    /// Their mean.
    pub mean_time_ms: f64,
    /// Half took at most this, as for the other percentiles: one of the times, not a value between two.
    pub median_time_ms: f64,
    /// 95 of 100 took at most this.
    pub p95_time_ms: f64,
    /// 99 of 100 took at most this: the longest of fewer than 100.
    pub p99_time_ms: f64,
    /// The shortest.
    pub min_time_ms: f64,
    /// The longest.
    pub max_time_ms: f64,
    /// Each, in order.
    pub times_ms: Vec<f64>,
}

impl Times {
    /// The figures of these times; zeros of none.
    pub fn of(times_ms: Vec<f64>) -> Self {
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

    /// The seconds that all took.
    pub fn seconds(&self) -> f64 {
        self.times_ms.iter().sum::<f64>() / 1e3
    }
}

/// Items that failed alike.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// How many.
    pub count: usize,
    /// What the first one said.
    pub first: String,
}

/// Memory, read before the timed batches, after each and after the last.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    /// This process' resident memory. It has the pictures in it, and what earlier measurements left.
    pub process_mib: Option<Span>,
    /// The memory of the operation's device that all processes use, where the driver tells it; main memory where the
    /// device is the CPU under another provider.
    pub device_mib: Option<Span>,
}

/// A quantity in MiB over a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// At the start.
    pub before: f64,
    /// The most that was seen.
    pub peak: f64,
    /// At the end.
    pub after: f64,
}

impl Span {
    /// Adds a sample to what was seen so far.
    pub fn extend(span: &mut Option<Self>, sample: Option<f64>) {
        let Some(now) = sample else {
            return;
        };
        *span = Some(match *span {
            Some(Self { before, peak, .. }) => Self {
                before,
                peak: peak.max(now),
                after: now,
            },
            None => Self {
                before: now,
                peak: now,
                after: now,
            },
        });
    }
}

impl Cell {
    /// Whether the operation had a device other than the CPU to the end.
    pub fn is_on_device(&self) -> bool {
        self.active != "cpu"
    }
}

impl Pair {
    /// The cells with their toggles.
    pub fn cells(&self) -> impl Iterator<Item = (Toggle, &Cell)> {
        let off = self.gpu_false.as_ref().map(|cell| (Toggle::Off, cell));
        let on = self.gpu_true.as_ref().map(|cell| (Toggle::On, cell));
        off.into_iter().chain(on)
    }
}

impl DevicesFigures {
    /// Takes a cell in.
    pub fn add(&mut self, operation: Operation, size: Size, toggle: Toggle, cell: Cell) {
        let sizes = self.benchmark_results.entry(operation).or_default();
        let pair = sizes.entry(size).or_default();
        match toggle {
            Toggle::Off => pair.gpu_false = Some(cell),
            Toggle::On => pair.gpu_true = Some(cell),
        }
    }

    /// Every cell.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        let pairs = self.benchmark_results.values().flat_map(BTreeMap::values);
        pairs.flat_map(Pair::cells).map(|(_, cell)| cell)
    }

    /// Draws the conclusions, once all cells are in.
    pub fn conclude(&mut self) {
        self.analysis = analyse(&self.benchmark_results);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up() {
        let times = Times::of((1..=20).rev().map(f64::from).collect());
        assert_eq!(times.mean_time_ms, 10.5);
        assert_eq!(times.median_time_ms, 10.0);
        assert_eq!(times.p95_time_ms, 19.0);
        assert_eq!(times.p99_time_ms, 20.0);
        assert_eq!((times.min_time_ms, times.max_time_ms), (1.0, 20.0));
        assert_eq!(times.times_ms[0], 20.0, "as they came");
        assert_eq!(times.seconds(), 0.21);
    }

    #[test]
    fn memory_keeps_the_most_and_passes_over_what_is_not_told() {
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
