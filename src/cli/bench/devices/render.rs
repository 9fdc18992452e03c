//! Renders the figures as tables and plots.

use std::{collections::BTreeMap, path::Path};

use super::{
    analysis::{Advice, Gains},
    figures::{Cell, DevicesFigures, Span, Times, Toggle},
    material::Size,
};
use crate::cli::{
    bench::report::{Table, figure, math::nearest_rank, or_dash},
    plot,
};

/// The percentiles in the plots, from left to right, each with the share of times that do not exceed it.
const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("max", 1.0),
];

impl DevicesFigures {
    pub fn markdown(&self) -> String {
        let mut table = Table::new([
            "operation",
            "size",
            "toggle",
            "device",
            "mean ms",
            "median",
            "p95",
            "p99",
            "per second",
            "succeeded",
            "fell back",
            "first ms",
            "MiB",
            "device MiB",
            "time gained",
        ]);
        for (operation, sizes) in &self.benchmark_results {
            let gains = self.analysis.performance_gains.get(operation);
            for (size, cells) in sizes {
                let gains = gains.and_then(|gains| gains.get(size));
                for (&toggle, cell) in cells {
                    let gained = gained(gains, toggle);
                    let subject = (operation.name(), size.name());
                    row(&mut table, subject, toggle, cell, &gained);
                }
            }
        }
        let mut advice = Table::new(["operation", "setting", "on this machine", "reason"]);
        for (operation, found) in &self.analysis.recommendations {
            let toggle = match found.toggle {
                Some(Advice::On) => "on",
                Some(Advice::Off) => "off",
                None => "-",
            };
            // The message of a runtime may contain line breaks, which would end the row.
            let reason = found
                .reason
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            advice.row(&[&operation.name(), &found.setting, &toggle, &reason]);
        }
        format!("{table}\n{advice}")
    }

    /// Draws plots of the figures as SVG files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn draw(&self, folder: &Path) -> anyhow::Result<()> {
        for (operation, sizes) in &self.benchmark_results {
            let file = |plot: &str| folder.join(format!("{}_{plot}.svg", operation.name()));
            let (throughput, latency) = series_of(sizes);
            plot::bars(&file("throughput"), "Images per second", &throughput)?;
            let labels = PERCENTILES.map(|(name, _)| name);
            let axes = plot::Axes {
                title: "Latency in milliseconds",
                x_labels: &labels,
                ..plot::Axes::default()
            };
            plot::lines(&file("latency"), &axes, &latency)?;
        }
        Ok(())
    }
}

fn row(
    table: &mut Table,
    (operation, size): (&str, &str),
    toggle: Toggle,
    cell: &Cell,
    gained: &str,
) {
    let device = if cell.is_on_device() {
        &cell.active
    } else {
        &cell.cpu_provider
    };
    let fell_back: u64 = cell.fallback_rows.values().sum();
    let peak = |span: Option<Span>| or_dash(span.map(|span| span.peak), |mib| format!("{mib:.0}"));
    let times = &cell.times;
    table.row(&[
        &operation,
        &size,
        &toggle.name(),
        &device,
        &figure(times.mean_time_ms),
        &figure(times.median_time_ms),
        &figure(times.p95_time_ms),
        &figure(times.p99_time_ms),
        &figure(cell.mean_throughput),
        &format!("{:.1} %", cell.success_rate * 100.0),
        &fell_back,
        &figure(cell.first_run_ms),
        &peak(cell.memory.process_mib),
        &peak(cell.memory.device_mib),
        &gained,
    ]);
}

fn gained(gains: Option<&Gains>, toggle: Toggle) -> String {
    let percent = gains.and_then(|gains| gains.time_improvement_percent);
    or_dash(percent.filter(|_| toggle == Toggle::On), |percent| {
        format!("{percent:+.1} %")
    })
}

/// Returns the throughput of an operation and the percentiles of its times, by size and toggle.
fn series_of(
    sizes: &BTreeMap<Size, BTreeMap<Toggle, Cell>>,
) -> (Vec<(String, f64)>, Vec<plot::Line>) {
    let mut throughput = Vec::new();
    let mut latency = Vec::new();
    for (size, cells) in sizes {
        for (toggle, cell) in cells {
            let state = match toggle {
                Toggle::Off => "off",
                Toggle::On => "on",
            };
            let name = format!("{} {state}", size.name());
            throughput.push((name.clone(), cell.mean_throughput));
            latency.push(plot::Line {
                name,
                values: percentiles(&cell.times),
            });
        }
    }
    (throughput, latency)
}

fn percentiles(times: &Times) -> Vec<f64> {
    let mut sorted = times.times_ms.clone();
    sorted.sort_by(f64::total_cmp);
    let ranks = PERCENTILES.iter().map(|(_, share)| *share);
    ranks
        .filter_map(|share| nearest_rank(&sorted, share))
        .collect()
}
