//! What a measurement leaves behind: a table, and files that say where it was made.

use std::{
    fmt, fs,
    io::{self, Write},
    path::Path,
};

use anyhow::Context;
use comfy_table::presets::ASCII_MARKDOWN;
use serde::Serialize;
use serde_json::Value;

use device::Device;

mod device;
pub mod maths;

/// Figures that can be shown.
pub trait Render {
    /// Whether their fields stand in `report.json` beside the machine's, and not below `figures`.
    const AT_TOP: bool = false;

    /// As Markdown tables.
    fn markdown(&self) -> String;

    /// Draws plots of them as SVG files.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn draw(&self, folder: &Path) -> anyhow::Result<()>;
}

/// Figures with all that is needed to make them again.
#[derive(Serialize)]
struct Report<'a, W, T> {
    command_line: Vec<String>,
    commit: Option<String>,
    build: &'static str,
    device: Device,
    workload: &'a W,
    figures: &'a T,
}

/// Prints the figures, and writes them to `folder` with their plots.
///
/// # Errors
/// When they cannot be written.
pub fn publish<W: Serialize + fmt::Display, T: Serialize + Render>(
    workload: &W,
    figures: &T,
    folder: Option<&Path>,
) -> anyhow::Result<()> {
    let report = Report {
        command_line: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        commit: device::commit(),
        build: BUILD,
        device: Device::of_this_machine(),
        workload,
        figures,
    };
    let text = report.markdown();
    write!(io::stdout().lock(), "{text}")?;
    if BUILD == "debug" {
        eprintln!("this build is not optimised; measure with `cargo build --release`");
    }
    let Some(folder) = folder else {
        return Ok(());
    };
    fs::create_dir_all(folder)
        .with_context(|| format!("making the folder {}", folder.display()))?;
    let mut json = serde_json::to_value(&report)?;
    if T::AT_TOP
        && let Some(fields) = json.as_object_mut()
        && let Some(Value::Object(figures)) = fields.remove("figures")
    {
        fields.extend(figures);
    }
    let json = serde_json::to_string_pretty(&json)? + "\n";
    for (name, content) in [("report.json", json), ("report.md", text)] {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    figures.draw(folder).context("drawing the plots")
}

const BUILD: &str = if cfg!(debug_assertions) {
    "debug"
} else {
    "release"
};

impl<W: fmt::Display, T: Render> Report<'_, W, T> {
    fn markdown(&self) -> String {
        let commit = self.commit.as_deref().unwrap_or("no commit");
        format!(
            "{}\n{} cores, {}; {commit}, {} build; {}\n\n`{}`\n",
            self.figures.markdown(),
            self.device.cores,
            self.device.cpu,
            self.build,
            self.workload,
            self.command_line.join(" "),
        )
    }
}

/// A Markdown table.
pub struct Table(comfy_table::Table);

impl Table {
    /// One with this header.
    pub fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(ASCII_MARKDOWN).set_header(header);
        Self(table)
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&dyn fmt::Display]) {
        // A bar would end the cell.
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

/// A number with three or so digits.
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Milliseconds.
pub fn millis(value: f64) -> String {
    format!("{} ms", figure(value))
}

/// A share.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What there may not be.
pub fn or_dash(value: Option<f64>, written: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), written)
}
