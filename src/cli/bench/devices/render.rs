//! How the figures are shown.

use std::{collections::BTreeMap, time::Duration};

use super::{
    analysis::{Advice, Gains},
    figures::{Cell, DevicesFigures, Pair, Span, Times, Toggle},
    material::Size,
};
use crate::cli::bench::report::{
    Plots, Render, Table, figure,
    maths::{Durations, Percentiles},
    or_dash, percent,
};
use facescan_inference::operation::Operation;

impl Render for DevicesFigures {
    const AT_TOP: bool = true;

    fn markdown(&self) -> String {
        let mut table = Table::new([
            "operation",
            "size",
            "toggle",
            "device",
            "mean ms",
            "median",
            "p95",
            "p99",
            "a second",
            "succeeded",
            "fell back",
            "first ms",
            "MiB",
            "device MiB",
            "time gained",
        ]);
        for (operation, sizes) in &self.benchmark_results {
            let gains = self.analysis.performance_gains.get(operation);
            for (size, pair) in sizes {
                let gains = gains.and_then(|gains| gains.get(size));
                for (toggle, cell) in pair.cells() {
                    let gained = gained(gains, toggle);
                    let subject = (operation.name(), size.name());
                    row(&mut table, subject, toggle, cell, &gained);
                }
            }
        }
        let mut advice = Table::new(["operation", "setting", "on this machine", "because"]);
        for (operation, found) in &self.analysis.recommendations {
            let toggle = match found.toggle {
                Some(Advice::On) => "on",
                Some(Advice::Off) => "off",
                None => "-",
            };
            // A runtime's words may have line ends, which would end the row.
            let reason = found
                .reason
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            advice.row(&[&operation.name(), &found.setting, &toggle, &reason]);
        }
        format!("{table}\n{advice}")
    }

    fn plots(&self) -> Plots {
        let of =
            |(operation, sizes): (&Operation, &_)| (operation.name().to_owned(), plots_of(sizes));
        Plots {
            parts: self.benchmark_results.iter().map(of).collect(),
            ..Plots::default()
        }
    }
}

/// One line of the table.
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
        &percent(cell.success_rate),
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

/// An operation's times and throughput, by size and toggle.
fn plots_of(sizes: &BTreeMap<Size, Pair>) -> Plots {
    let mut plots = Plots::default();
    for (size, pair) in sizes {
        for (toggle, cell) in pair.cells() {
            let state = match toggle {
                Toggle::Off => "off",
                Toggle::On => "on",
            };
            let name = format!("{} {state}", size.name());
            plots.throughput.push((name.clone(), cell.mean_throughput));
            if let Some(times) = percentiles(&cell.times) {
                plots.latency.push((name, times));
            }
        }
    }
    plots
}

fn percentiles(times: &Times) -> Option<Percentiles> {
    let mut durations = Durations::new().ok()?;
    for millis in &times.times_ms {
        durations.add(Duration::from_secs_f64(millis / 1e3));
    }
    durations.percentiles()
}
