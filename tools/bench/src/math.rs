//! Percentiles and medians.

use std::time::Duration;

use facescan::cli::bench::report::math::ratio;
use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest distinguishable duration in microseconds: ten minutes.
const MAX_MICROS: u64 = 600_000_000;

/// Durations with three significant digits.
#[derive(Clone, Debug)]
pub struct Durations(Histogram<u64>);

/// The percentiles of durations in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The number of durations.
    pub count: u64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
    /// The maximum.
    pub max: f64,
}

impl Durations {
    /// Creates an empty set of durations.
    ///
    /// # Errors
    /// Never fails with the bounds in this module.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, MAX_MICROS, 3)?))
    }

    /// Adds a duration. A duration above ten minutes counts as ten minutes.
    pub fn add(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(MAX_MICROS);
        self.0.saturating_record(micros.clamp(1, MAX_MICROS));
    }

    /// Adds all durations of another set.
    ///
    /// # Errors
    /// Never fails, because all sets have the same bounds.
    pub fn merge(&mut self, other: &Self) -> anyhow::Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    /// Returns the percentiles, or `None` if there are no durations.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        (!self.0.is_empty()).then(|| Percentiles {
            count: self.0.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: at(1.0),
        })
    }
}

/// Returns the median, or `None` if there are no values. For an even number of values it is the mean of the middle two.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 {
        upper
    } else {
        (values[middle - 1] + upper) / 2.0
    })
}

/// Returns the median of the ratios within each pair. The two measurements of a pair ran directly one after the other,
/// so a temporary slowdown of the machine affected both.
pub fn median_ratio(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    median(pairs.into_iter().filter_map(|(of, to)| ratio(of, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_accurate_to_three_digits() {
        let mut durations = Durations::new().unwrap();
        for millis in 1..=1000 {
            durations.add(Duration::from_millis(millis));
        }
        let found = durations.percentiles().unwrap();
        assert_eq!(found.count, 1000);
        for (value, expected) in [
            (found.p50, 500.0),
            (found.p90, 900.0),
            (found.p99, 990.0),
            (found.p99_9, 999.0),
            (found.max, 1000.0),
        ] {
            assert!(
                (value / expected - 1.0_f64).abs() < 0.002,
                "{value} {expected}"
            );
        }
    }

    #[test]
    fn durations_out_of_bounds_are_clamped_and_merge() {
        let mut durations = Durations::new().unwrap();
        assert_eq!(durations.percentiles(), None);
        durations.add(Duration::ZERO);
        let mut others = Durations::new().unwrap();
        others.add(Duration::from_secs(100_000));
        durations.merge(&others).unwrap();
        let found = durations.percentiles().unwrap();
        assert_eq!(found.count, 2);
        assert!((found.max / 600_000.0 - 1.0).abs() < 0.002);
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn ratios_are_computed_per_round() {
        // The machine ran at half the speed in the second round. In the third round, one peer never answered.
        let rounds = [(30.0, 10.0), (15.0, 5.0), (30.0, 0.0)];
        assert_eq!(median_ratio(rounds), Some(3.0));
    }
}
