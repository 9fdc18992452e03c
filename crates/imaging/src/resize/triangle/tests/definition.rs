//! The definition of the filter, in f64 and one sample after the other.

use crate::{resize::view::Axis, synthetic::shares};

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
    let window = shares(axis.source, axis.target, position, |center| center);
    let bound = bound(window.len()) + 1e-9;
    for (number, ours) in means.enumerate() {
        let products = window
            .iter()
            .map(|&(at, share)| sample(number, at as usize) * share);
        let exact: f64 = products.sum();
        assert!(
            (ours - exact).abs() <= bound,
            "{axis:?}, {position}, {number}: {ours}, exactly {exact}"
        );
    }
}
