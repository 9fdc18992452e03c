//! The definition of the filter, in f64 and one sample after the other.

use crate::resize::view::Axis;

/// Returns the source samples of one target position with their weights. Samples of weight 0 are omitted.
pub(super) fn window(axis: &Axis, position: u32) -> Vec<(usize, f64)> {
    let scale = f64::from(axis.source) / f64::from(axis.target);
    let center = (f64::from(position) + 0.5) * scale;
    let weight = |sample: u32| {
        let distance = (f64::from(sample) + 0.5 - center).abs();
        (1.0 - distance / scale.max(1.0)).max(0.0)
    };
    let sum: f64 = (0..axis.source).map(weight).sum();
    (0..axis.source)
        .map(|sample| (sample as usize, weight(sample) / sum))
        .filter(|(_, weight)| *weight > 0.0)
        .collect()
}

/// Returns the weighted mean of a window over `sample(index)`.
pub(super) fn mean(window: &[(usize, f64)], sample: impl Fn(usize) -> f64) -> f64 {
    let products = window.iter().map(|&(index, weight)| sample(index) * weight);
    products.sum()
}

/// Returns the maximum error of a mean of `taps` samples with fixed-point weights, in levels.
pub(super) fn fixed_point_bound(taps: usize) -> f64 {
    0.5 * taps as f64 * 255.0 / 16_384.0
}

/// Returns the maximum error of a sum of `taps` products in f32, in levels.
pub(super) fn float_bound(taps: usize) -> f64 {
    (taps as f64 + 2.0) * 255.0 / f64::from(1 << 24)
}
