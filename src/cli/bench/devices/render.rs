//! Renders the figures as tables.

use super::{
    analysis::{Advice, Gains},
    figures::{Cell, DevicesFigures, Span, Toggle},
};
use crate::cli::bench::report::{Table, figure, or_dash, percent};

impl DevicesFigures {
    /// Renders the figures as Markdown tables.
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
}

/// Adds one row to the table.
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
