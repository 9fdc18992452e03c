//! The report of a measurement: a table, and files that also describe the machine.

use std::{
    fmt, fs,
    io::{self, Write},
    path::Path,
};

use anyhow::Context;
use comfy_table::presets::ASCII_MARKDOWN;
use serde::Serialize;

use device::Device;

mod device;
pub mod math;

/// Figures with everything that is needed to measure them again.
#[derive(Serialize)]
struct Report<'a, W, T> {
    command_line: Vec<String>,
    commit: Option<String>,
    build: &'static str,
    device: Device,
    workload: &'a W,
    #[serde(flatten)]
    figures: &'a T,
}

/// Prints the `tables` of the figures. If `folder` is `Some`, also writes the report to it.
pub fn publish<W: Serialize + fmt::Display, T: Serialize>(
    workload: &W,
    figures: &T,
    tables: &str,
    folder: Option<&Path>,
) -> anyhow::Result<()> {
    let report = Report {
        command_line: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        commit: device::commit(),
        build: BUILD,
        device: Device::get(),
        workload,
        figures,
    };
    let text = format!(
        "{tables}\n{} cores, {}; {}, {BUILD} build; {workload}\n\n`{}`\n",
        report.device.cores,
        report.device.cpu,
        report.commit.as_deref().unwrap_or("no commit"),
        report.command_line.join(" "),
    );
    write!(io::stdout().lock(), "{text}")?;
    if BUILD == "debug" {
        eprintln!("this build is not optimized; measure with `cargo build --release`");
    }
    let Some(folder) = folder else {
        return Ok(());
    };
    fs::create_dir_all(folder)
        .with_context(|| format!("creating the folder {}", folder.display()))?;
    let json = serde_json::to_string_pretty(&report)? + "\n";
    for (name, content) in [("report.json", json), ("report.md", text)] {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

const BUILD: &str = if cfg!(debug_assertions) {
    "debug"
} else {
    "release"
};

/// A Markdown table.
pub struct Table(comfy_table::Table);

impl Table {
    pub fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(ASCII_MARKDOWN).set_header(header);
        Self(table)
    }

    pub fn row(&mut self, cells: &[&dyn fmt::Display]) {
        // An unescaped bar would end the cell.
        self.0.add_row(
            cells
                .iter()
                .map(|cell| cell.to_string().replace('|', "\\|")),
        );
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.0)
    }
}

/// Formats a number with about three digits.
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Formats a value, or returns a dash if there is none.
pub fn or_dash(value: Option<f64>, written: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), written)
}
