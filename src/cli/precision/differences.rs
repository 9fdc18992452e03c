//! Counts differences of samples in fine steps, so that the memory does not depend on the number of images.

use std::path::Path;

use serde::Serialize;

use super::Pair;
use crate::cli::plot;

/// The number of steps per level.
const STEPS: usize = 1000;
/// The largest difference in levels.
const LEVELS: usize = 255;

/// The number of levels per unit: half of the levels that [−1, 1] spans.
const LEVELS_A_UNIT: f64 = 127.5;

/// The number of occurrences of each difference.
pub struct Differences {
    counts: Vec<u64>,
    values: u64,
    sum: f64,
    max: f64,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The number of values that were compared.
    pub values: u64,
    /// The largest difference in levels.
    pub max_levels: f64,
    pub mean_levels: f64,
    /// The median in levels, with a resolution of 0.001.
    pub median_levels: f64,
    /// The share of values that are equal within 0.001 levels.
    pub equal_share: f64,
    /// The largest difference in units of samples in [−1, 1].
    pub max_units: f64,
    /// The mean in the same units.
    pub mean_units: f64,
}

impl Default for Differences {
    fn default() -> Self {
        Self {
            counts: vec![0; LEVELS * STEPS + 1],
            values: 0,
            sum: 0.0,
            max: 0.0,
        }
    }
}

impl Differences {
    /// Counts the differences between two lists of levels.
    pub fn add(&mut self, first: &[f32], second: &[f32]) {
        for (a, b) in first.iter().zip(second) {
            let apart = f64::from((a - b).abs());
            let at = ((apart * STEPS as f64).round() as usize).min(self.counts.len() - 1);
            self.counts[at] += 1;
            self.values += 1;
            self.sum += apart;
            self.max = self.max.max(apart);
        }
    }

    pub fn summary(&self) -> Summary {
        let values = self.values.max(1) as f64;
        let mut seen = 0;
        let half = self.values.div_ceil(2);
        let median = self.counts.iter().position(|count| {
            seen += count;
            seen >= half
        });
        let mean = self.sum / values;
        Summary {
            values: self.values,
            max_levels: self.max,
            mean_levels: mean,
            median_levels: median.unwrap_or(0) as f64 / STEPS as f64,
            equal_share: self.counts[0] as f64 / values,
            max_units: self.max / LEVELS_A_UNIT,
            mean_units: mean / LEVELS_A_UNIT,
        }
    }

    /// Returns the share of values for each difference in whole levels, up to the largest.
    fn histogram(&self) -> Vec<f64> {
        let values = self.values.max(1) as f64;
        let levels = self.max.ceil() as usize;
        let mut shares = vec![0.0; levels + 1];
        for (at, count) in self.counts.iter().enumerate() {
            let level = (at + STEPS / 2) / STEPS;
            if let Some(share) = shares.get_mut(level) {
                *share += *count as f64 / values;
            }
        }
        shares
    }
}

/// Draws a histogram of the differences: levels on the horizontal axis, shares of the values on the vertical axis in
/// powers of ten.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn plot(path: &Path, pairs: &[Pair]) -> anyhow::Result<()> {
    // Stands for the logarithm of a share of zero. It is less than the logarithm of any other share.
    const LEAST: f64 = -7.0;
    let line = |pair: &Pair| plot::Line {
        name: format!("{} and {}", pair.first, pair.second),
        values: pair
            .differences
            .histogram()
            .into_iter()
            .map(|share| share.log10().max(LEAST))
            .collect(),
    };
    let lines: Vec<plot::Line> = pairs.iter().map(line).collect();
    let axes = plot::Axes {
        title: "Differences of samples: share of the values in powers of ten",
        x_title: "difference in levels",
        y_range: Some(LEAST..0.0),
        ..plot::Axes::default()
    };
    plot::lines(path, &axes, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_summarized_in_both_units() {
        let mut differences = Differences::default();
        differences.add(&[0.0, 10.0, 20.0, 255.0], &[0.0, 11.0, 17.5, 0.0]);
        let summary = differences.summary();
        assert_eq!((summary.values, summary.equal_share), (4, 0.25));
        assert_eq!((summary.max_levels, summary.max_units), (255.0, 2.0));
        assert_eq!(summary.median_levels, 1.0);
        assert!((summary.mean_levels - 258.5 / 4.0).abs() < 1e-9);
        let shares = differences.histogram();
        assert_eq!((shares.len(), shares[0], shares[255]), (256, 0.25, 0.25));
    }
}
