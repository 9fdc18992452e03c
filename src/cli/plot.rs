//! Line and bar charts as SVG.

use std::{
    fmt::{self, Write},
    fs,
    ops::Range,
    path::Path,
};

use anyhow::Context;

use super::bench::report::figure;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 450.0;
/// The space around the axes for the title and the labels, in pixels.
const MARGIN: f64 = 60.0;
/// The number of horizontal grid lines above the lowest one.
const GRID_LINES: usize = 5;
/// The maximum number of labels on a horizontal axis of numbers.
const MAX_LABELS: usize = 10;
/// The attribute of a text whose position is that of its middle.
const MIDDLE: &str = r#"text-anchor="middle""#;
/// The share of a bar's slot that the bar fills.
const BAR_WIDTH: f64 = 0.7;
const COLORS: [&str; 6] = [
    "#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080",
];

/// One line. Its values are at 0, 1, 2 and so on of the horizontal axis.
#[derive(Debug)]
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// The values from left to right.
    pub values: Vec<f64>,
}

/// The title, the labels and the range of a chart.
#[derive(Debug, Default)]
pub struct Axes<'a> {
    /// The title above the chart.
    pub title: &'a str,
    /// The title below the horizontal axis.
    pub x_title: &'a str,
    /// The labels of the horizontal axis. If there are none, the axis has numbers.
    pub x_labels: &'a [&'a str],
    /// The range of the vertical axis. `None` means 0 to the highest value.
    pub y_range: Option<Range<f64>>,
}

/// Writes a line chart with a legend.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn lines(path: &Path, axes: &Axes, lines: &[Line]) -> anyhow::Result<()> {
    let longest = lines.iter().map(|line| line.values.len()).max();
    let values = lines.iter().flat_map(|line| line.values.iter().copied());
    let y = axes.y_range.clone().unwrap_or_else(|| from_zero(values));
    let mut frame = Frame {
        svg: String::new(),
        x: 0.0..longest.unwrap_or(0).saturating_sub(1).max(1) as f64,
        y,
    };
    let svg = frame.lines(axes, lines).context("drawing a chart")?;
    write_file(path, svg)
}

/// Writes a bar chart. The name of each bar is below it.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn bars(path: &Path, title: &str, bars: &[(String, f64)]) -> anyhow::Result<()> {
    let mut frame = Frame {
        svg: String::new(),
        x: -0.5..bars.len() as f64 - 0.5,
        y: from_zero(bars.iter().map(|(_, value)| *value)),
    };
    let svg = frame.bars(title, bars).context("drawing a chart")?;
    write_file(path, svg)
}

fn from_zero(values: impl Iterator<Item = f64>) -> Range<f64> {
    0.0..values.fold(0.0, f64::max).max(1e-3) * 1.05
}

fn write_file(path: &Path, svg: &str) -> anyhow::Result<()> {
    fs::write(path, svg).with_context(|| format!("writing {}", path.display()))
}

/// An unfinished chart, and the values at the ends of its axes.
struct Frame {
    svg: String,
    x: Range<f64>,
    y: Range<f64>,
}

impl Frame {
    fn lines(&mut self, axes: &Axes, lines: &[Line]) -> Result<&str, fmt::Error> {
        self.begin(axes.title)?;
        let last = self.x.end as usize;
        if axes.x_labels.is_empty() {
            for at in (0..=last).step_by(last.div_ceil(MAX_LABELS).max(1)) {
                self.x_label(at, &at.to_string())?;
            }
        }
        for (at, label) in axes.x_labels.iter().enumerate() {
            self.x_label(at, label)?;
        }
        self.text((WIDTH / 2.0, HEIGHT - 12.0), MIDDLE, axes.x_title)?;
        for (number, (line, color)) in lines.iter().zip(COLORS.iter().cycle()).enumerate() {
            self.line(line, color)?;
            let at = (MARGIN + 12.0, MARGIN + 16.0 * (number + 1) as f64);
            self.text(at, &format!(r#"fill="{color}""#), &line.name)?;
        }
        self.end()
    }

    fn bars(&mut self, title: &str, bars: &[(String, f64)]) -> Result<&str, fmt::Error> {
        self.begin(title)?;
        for (at, ((name, value), color)) in bars.iter().zip(COLORS.iter().cycle()).enumerate() {
            let (left, top) = self.point(at as f64 - BAR_WIDTH / 2.0, *value);
            let (right, bottom) = self.point(at as f64 + BAR_WIDTH / 2.0, 0.0);
            let (width, height) = (right - left, bottom - top);
            writeln!(
                self.svg,
                r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" fill="{color}"/>"#
            )?;
            self.x_label(at, name)?;
        }
        self.end()
    }

    fn begin(&mut self, title: &str) -> fmt::Result {
        writeln!(
            self.svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
        )?;
        writeln!(
            self.svg,
            r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#
        )?;
        self.text((WIDTH / 2.0, MARGIN / 2.0), MIDDLE, title)?;
        for step in 0..=GRID_LINES {
            let share = step as f64 / GRID_LINES as f64;
            let value = self.y.start + share * (self.y.end - self.y.start);
            let (left, y) = self.point(self.x.start, value);
            let right = WIDTH - MARGIN;
            writeln!(
                self.svg,
                r##"<path d="M{left:.1} {y:.1}H{right:.1}" stroke="#ccc"/>"##
            )?;
            let attribute = r#"text-anchor="end""#;
            self.text((left - 6.0, y + 4.0), attribute, &figure(value))?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<&str, fmt::Error> {
        writeln!(self.svg, "</svg>")?;
        Ok(&self.svg)
    }

    fn line(&mut self, line: &Line, color: &str) -> fmt::Result {
        write!(
            self.svg,
            r#"<polyline fill="none" stroke="{color}" stroke-width="2" points=""#
        )?;
        for (at, value) in line.values.iter().enumerate() {
            let (x, y) = self.point(at as f64, *value);
            write!(self.svg, "{x:.1},{y:.1} ")?;
        }
        writeln!(self.svg, r#""/>"#)
    }

    /// Returns the position of a value. A value outside the vertical axis is drawn at the end of the axis.
    fn point(&self, x: f64, y: f64) -> (f64, f64) {
        let share = |value: f64, axis: &Range<f64>| (value - axis.start) / (axis.end - axis.start);
        let up = share(y, &self.y).clamp(0.0, 1.0);
        (
            MARGIN + share(x, &self.x) * (WIDTH - 2.0 * MARGIN),
            HEIGHT - MARGIN - up * (HEIGHT - 2.0 * MARGIN),
        )
    }

    fn x_label(&mut self, at: usize, label: &str) -> fmt::Result {
        let (x, _) = self.point(at as f64, self.y.start);
        self.text((x, HEIGHT - MARGIN + 18.0), MIDDLE, label)
    }

    /// Writes a text whose element has an attribute.
    fn text(&mut self, (x, y): (f64, f64), attribute: &str, text: &str) -> fmt::Result {
        let text = escaped(text);
        writeln!(
            self.svg,
            r#"<text x="{x:.1}" y="{y:.1}" {attribute}>{text}</text>"#
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_spans_the_chart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.svg");
        let line = Line {
            name: "a < b".to_owned(),
            values: vec![-7.0, -3.5, 0.0],
        };
        let axes = Axes {
            title: "Shares",
            x_labels: &["low", "middle", "high"],
            y_range: Some(-7.0..0.0),
            ..Axes::default()
        };
        lines(&path, &axes, &[line]).unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        assert!(svg.contains("60.0,390.0 400.0,225.0 740.0,60.0 "), "{svg}");
        assert!(svg.ends_with("</svg>\n"), "{svg}");
        for text in ["a &lt; b", "Shares", "low", "middle", "high", "-7.00"] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}: {svg}");
        }
    }

    #[test]
    fn the_height_of_a_bar_follows_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bars.svg");
        let values = [("off".to_owned(), 10.0), ("on".to_owned(), 20.0)];
        bars(&path, "Images per second", &values).unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        // The axis ends at 21.
        assert!(svg.contains(r#"height="157.1""#), "{svg}");
        assert!(svg.contains(r#"height="314.3""#), "{svg}");
        assert!(svg.contains(">off<") && svg.contains(">on<"), "{svg}");
    }
}
