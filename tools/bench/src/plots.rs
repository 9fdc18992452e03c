//! The plots of a report as SVG files.

use std::path::Path;

use plotters::{
    chart::SeriesLabelPosition,
    coord::Shift,
    prelude::{
        ChartBuilder, DrawingArea, IntoDrawingArea, LineSeries, PathElement, Rectangle, SVGBackend,
    },
    style::{BLACK, Color, Palette, Palette99, WHITE},
};

use crate::math::Percentiles;

const SIZE: (u32, u32) = (800, 450);

/// The percentiles in the plots, from left to right.
const SHOWN: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// The data of the plots. Empty data has no plot.
#[derive(Debug, Default)]
pub struct Plots {
    /// Latencies by system.
    pub latency: Vec<(String, Percentiles)>,
    /// Images per second by system.
    pub throughput: Vec<(String, f64)>,
    /// Resident memory in MiB, from the start of the run to its end.
    pub memory: Vec<(String, Vec<f64>)>,
}

type Outcome = anyhow::Result<()>;

impl Plots {
    /// Draws `latency.svg`, `throughput.svg` and `memory.svg`.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn draw(&self, folder: &Path) -> Outcome {
        let file = |name: &str| folder.join(name);
        if !self.latency.is_empty() {
            let lines: Vec<(&str, Vec<f64>)> = self
                .latency
                .iter()
                .map(|(name, p)| (name.as_str(), vec![p.p50, p.p90, p.p99, p.p99_9, p.max]))
                .collect();
            let label = |at: &f64| {
                place(*at, SHOWN.len())
                    .map_or("", |place| SHOWN[place])
                    .to_owned()
            };
            let title = "Latency in milliseconds";
            draw_lines(&file("latency.svg"), title, &lines, SHOWN.len(), &label)?;
        }
        if !self.throughput.is_empty() {
            draw_bars(&file("throughput.svg"), &self.throughput)?;
        }
        if !self.memory.is_empty() {
            let lines: Vec<(&str, Vec<f64>)> = self
                .memory
                .iter()
                .map(|(name, curve)| (name.as_str(), curve.clone()))
                .collect();
            let title = "Resident memory in MiB, over the run";
            draw_lines(&file("memory.svg"), title, &lines, 10, &|at| {
                format!("{at:.0}")
            })?;
        }
        Ok(())
    }
}

/// Returns the index of the label at a position of the axis. Returns `None` between whole positions.
fn place(at: f64, count: usize) -> Option<usize> {
    (0..count).find(|place| (at - *place as f64).abs() < 1e-6)
}

fn draw_lines(
    path: &Path,
    title: &str,
    lines: &[(&str, Vec<f64>)],
    labels: usize,
    label: &dyn Fn(&f64) -> String,
) -> Outcome {
    let longest = lines
        .iter()
        .map(|(_, values)| values.len())
        .max()
        .unwrap_or(0);
    let highest = highest(lines.iter().flat_map(|(_, values)| values.iter().copied()));
    let area = blank(path)?;
    let right = longest.saturating_sub(1).max(1) as f64;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(15)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..right, 0.0..highest)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(labels)
        .x_label_formatter(&label)
        .draw()?;
    for (number, (name, values)) in lines.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        let points = values.iter().enumerate().map(|(x, y)| (x as f64, *y));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(area.present()?)
}

fn draw_bars(path: &Path, bars: &[(String, f64)]) -> Outcome {
    let area = blank(path)?;
    let across = -0.5..bars.len() as f64 - 0.5;
    let up = 0.0..highest(bars.iter().map(|(_, value)| *value));
    let mut chart = ChartBuilder::on(&area)
        .caption("Images per second", ("sans-serif", 20))
        .margin(15)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        // With fewer labels, the axis may skip some.
        .x_labels(2 * bars.len())
        .x_label_formatter(&|at| {
            place(*at, bars.len()).map_or_else(String::new, |bar| bars[bar].0.clone())
        })
        .draw()?;
    chart.draw_series(bars.iter().enumerate().map(|(number, (_, value))| {
        let middle = number as f64;
        let corners = [(middle - 0.35, 0.0), (middle + 0.35, *value)];
        Rectangle::new(corners, Palette99::pick(number).filled())
    }))?;
    Ok(area.present()?)
}

fn blank(path: &Path) -> anyhow::Result<DrawingArea<SVGBackend<'_>, Shift>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    Ok(area)
}

/// Returns the top of an axis: a little above the highest value, and always above zero.
fn highest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max).max(1e-3) * 1.05
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plot_with_data_is_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let latency = Percentiles {
            count: 5,
            p50: 10.0,
            p90: 20.0,
            p99: 30.0,
            p99_9: 40.0,
            max: 50.0,
        };
        let plots = Plots {
            latency: vec![("ours".to_owned(), latency)],
            throughput: vec![("floor".to_owned(), 30.0), ("ours".to_owned(), 28.0)],
            ..Plots::default()
        };
        plots.draw(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name));
        let latency = read("latency.svg").unwrap();
        for label in SHOWN.iter().chain(&["ours"]) {
            assert!(latency.contains(label), "{label} is not in {latency}");
        }
        let throughput = read("throughput.svg").unwrap();
        assert!(throughput.contains("floor") && throughput.contains("ours"));
        assert!(read("memory.svg").is_err());
    }
}
