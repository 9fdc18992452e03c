//! Kernels as sums of cosines.

use std::f64::consts::PI;

/// The fewest cosines that are tried. Few kernels need fewer.
const MIN_TERMS: usize = 4;

/// The most cosines of a series.
pub(super) const MAX_TERMS: usize = 8;

/// The longest periods of a series, in radii. They are longer than the kernel, so that the series does not have to follow the
/// step at the kernel's end. A flat kernel has a large step, and a narrow one needs more cosines in a long period.
const PERIODS: [f64; 2] = [2.3, 2.8];

/// The sum of the differences between the weights of a kernel and of its series. It makes less than a thirtieth of a level.
const MAX_ERROR: f64 = 1e-4;

/// The sum of the weights that are left out on each side of a kernel.
const TAIL: f32 = 2e-6;

/// Returns the weights without those at both ends that are too small to change a level.
pub(super) fn without_tails(weights: &[f32]) -> &[f32] {
    let mut sum = 0.0;
    let small = weights[..weights.len() / 2]
        .iter()
        .take_while(|weight| {
            sum += **weight;
            sum < TAIL
        })
        .count();
    &weights[small..weights.len() - small]
}

/// A kernel as a sum of cosines: the weight at a distance d from the center is Σ aₖ cos(k φ d) for k from 0.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// The distance of the outermost weight.
    pub(super) radius: u32,
    /// φ
    angle: f64,
    /// aₖ
    amplitudes: Vec<f64>,
}

impl Series {
    /// Approximates a symmetric kernel of odd length with a sum of 1. It must not be narrower than a fifth of its radius:
    /// see [`without_tails`].
    pub(super) fn new(weights: &[f32]) -> Self {
        let radius = weights.len() / 2;
        let half: Vec<f64> = weights[radius..].iter().copied().map(f64::from).collect();
        let mut series = (MIN_TERMS..=MAX_TERMS)
            .flat_map(|terms| PERIODS.map(|period| Self::fitted(&half, period, terms)))
            .find(|series| series.error(&half) <= MAX_ERROR)
            .unwrap_or_else(|| Self::fitted(&half, PERIODS[0], MAX_TERMS));
        // A flat image keeps its level.
        let sum: f64 = (0..=series.radius)
            .map(|distance| twice_unless_zero(distance) * series.weight(distance))
            .sum();
        series.amplitudes.iter_mut().for_each(|a| *a /= sum);
        series
    }

    /// Returns the closest series to half a kernel, from its center.
    fn fitted(half: &[f64], period: f64, terms: usize) -> Self {
        let radius = half.len().saturating_sub(1);
        let angle = 2.0 * PI / (period * radius.max(1) as f64);
        Self {
            radius: radius as u32,
            angle,
            amplitudes: least_squares(half, angle, terms),
        }
    }

    /// Returns the sum of the differences from the weights of half a kernel, and of those on the other side.
    fn error(&self, half: &[f64]) -> f64 {
        (0..)
            .zip(half)
            .map(|(distance, weight)| {
                twice_unless_zero(distance) * (self.weight(distance) - weight).abs()
            })
            .sum()
    }

    /// Returns the number of cosines.
    pub(super) fn terms(&self) -> usize {
        self.amplitudes.len()
    }

    /// Returns cosine `term` at a distance from the center, times its amplitude.
    pub(super) fn cosine(&self, term: usize, distance: u32) -> f64 {
        let amplitude = self.amplitudes.get(term).copied().unwrap_or_default();
        amplitude * self.turn(term, distance)
    }

    /// Returns cosine `term` at a distance from the center.
    pub(super) fn turn(&self, term: usize, distance: u32) -> f64 {
        (term as f64 * self.angle * f64::from(distance)).cos()
    }

    /// Returns the weight at a distance from the center.
    fn weight(&self, distance: u32) -> f64 {
        (0..self.terms())
            .map(|term| self.cosine(term, distance))
            .sum()
    }
}

/// Every weight but the one in the center is there on both sides.
fn twice_unless_zero(distance: u32) -> f64 {
    if distance == 0 { 1.0 } else { 2.0 }
}

/// Returns the amplitudes of the series of `terms` cosines that is closest to half a kernel, by its normal equations.
fn least_squares(half: &[f64], angle: f64, terms: usize) -> Vec<f64> {
    let cosines: Vec<Vec<f64>> = (0..terms)
        .map(|term| {
            (0..half.len())
                .map(|distance| (term as f64 * angle * distance as f64).cos())
                .collect()
        })
        .collect();
    let product = |one: &[f64], other: &[f64]| -> f64 {
        let products = one.iter().zip(other).map(|(a, b)| a * b);
        let weighted = (0..).zip(products);
        weighted.map(|(d, p)| twice_unless_zero(d) * p).sum()
    };
    let mut rows: Vec<Vec<f64>> = cosines
        .iter()
        .map(|row| {
            let mut equation: Vec<f64> =
                cosines.iter().map(|column| product(row, column)).collect();
            equation.push(product(row, half));
            equation
        })
        .collect();
    // The matrix is symmetric and positive definite, so elimination needs no pivots.
    for pivot in 0..terms {
        let (above, below) = rows.split_at_mut(pivot + 1);
        let known = &above[pivot];
        for row in below {
            let factor = row[pivot] / known[pivot];
            for (value, known) in row.iter_mut().zip(known) {
                *value -= factor * known;
            }
        }
    }
    let mut amplitudes = vec![0.0; terms];
    for row in (0..terms).rev() {
        let known: f64 = (row + 1..terms)
            .map(|column| rows[row][column] * amplitudes[column])
            .sum();
        amplitudes[row] = (rows[row][terms] - known) / rows[row][row];
    }
    amplitudes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blur::Gaussian;

    #[test]
    fn a_series_is_close_to_every_long_kernel() {
        for kernel in (67..=255).step_by(4) {
            for sigma in [3.0, 6.0, 9.5, 14.0, 25.0, 28.0, 31.0, 38.0, 60.0, 90.0, 1e4] {
                let weights = Gaussian::new(kernel, sigma).unwrap().weights();
                let used = without_tails(&weights);
                let left_out: f32 = weights[..(weights.len() - used.len()) / 2].iter().sum();
                assert!(left_out <= TAIL, "{kernel} {sigma}: {left_out}");
                let series = Series::new(used);
                let half: Vec<f64> = used[used.len() / 2..]
                    .iter()
                    .copied()
                    .map(f64::from)
                    .collect();
                let error = series.error(&half);
                assert!(error <= 1.1 * MAX_ERROR, "{kernel} {sigma}: {error}");
            }
        }
    }
}
