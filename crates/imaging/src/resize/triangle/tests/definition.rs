//! The definition of the filter, in f64 and one sample after the other.

use crate::resize::view::Axis;

/// Returns the source samples of one target position with their weights. Samples of weight 0 are omitted.
fn window(axis: &Axis, position: u32) -> Vec<(usize, f64)> {
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
fn mean(window: &[(usize, f64)], sample: impl Fn(usize) -> f64) -> f64 {
    let products = window.iter().map(|&(index, weight)| sample(index) * weight);
    products.sum()
}

/// Returns the maximum error of a sum of `taps` products in f32, in levels.
pub(super) fn float_bound(taps: usize) -> f64 {
    (taps as f64 + 2.0) * 255.0 / f64::from(1 << 24)
}

/// Asserts that the means at a target position are within `bound(taps)` levels of the definition. `sample(mean, index)`
/// returns the source samples of a mean.
pub(super) fn assert_means(
    axis: &Axis,
    position: u32,
    means: impl Iterator<Item = f64>,
    sample: impl Fn(usize, usize) -> f64,
    bound: impl Fn(usize) -> f64,
) {
    let window = window(axis, position);
    let bound = bound(window.len()) + 1e-9;
    for (number, ours) in means.enumerate() {
        let exact = mean(&window, |index| sample(number, index));
        assert!(
            (ours - exact).abs() <= bound,
            "{axis:?}, {position}, {number}: {ours}, exactly {exact}"
        );
    }
}
