//! Compares the kernels of fixed point with the definition, if this CPU runs them.

use proptest::prelude::*;

use super::{AXES, STRIDE, any_columns, any_rows, definition::assert_means, image, noise_levels};
use crate::{
    resize::{
        kernel_forms::{has_features, noise},
        triangle::{
            BLOCK, CHANNELS,
            dot_product::{self, DotProduct},
            fixed_point::{FixedPointRows, has_instructions},
            prefix_sum::{LEVEL_BITS, PrefixSum},
            rounded::{RoundedRows, rounded},
        },
        view::{Axis, View},
    },
    synthetic,
};

/// The maximum error of the prefix sum, in levels.
const PREFIX_SUM_BOUND: f64 = 4.0 / 64.0;

/// Returns the maximum error of a mean of `taps` samples with fixed-point weights, in levels.
fn fixed_point_bound(taps: usize) -> f64 {
    0.5 * taps as f64 * 255.0 / 16_384.0
}

fn level(sample: i16) -> f64 {
    f64::from(sample) / f64::from(1 << LEVEL_BITS)
}

/// Compares the prefix sums. Returns whether they accept the axis.
fn check_prefix_sum(axis: &Axis, samples: impl Iterator<Item = u8>) -> bool {
    let image = image(axis, samples);
    let Some(mut rows) = PrefixSum::new(&image, STRIDE, axis) else {
        return false;
    };
    let mut out = vec![-1; STRIDE];
    for position in axis.range.clone() {
        rows.next(&mut out).unwrap();
        let levels = out.iter().copied().map(level);
        let sample = |x: usize, y: usize| f64::from(image[y * STRIDE + x]);
        assert_means(axis, position, levels, sample, |_| PREFIX_SUM_BOUND);
    }
    assert!(rows.next(&mut out).is_none(), "{axis:?}");
    true
}

/// Compares the dot products. Returns whether they accept the axis.
fn check_dot_product(axis: &Axis) -> bool {
    let Some(windows) = DotProduct::new(axis) else {
        return false;
    };
    let levels = noise().map(|v| (v % (255 * (1 << LEVEL_BITS) + 1)) as i16);
    let mut row: Vec<i16> = levels.take(axis.source as usize * CHANNELS).collect();
    row.resize(row.len() + windows.overread(), 0);
    let mut out = vec![[[0; 4]; BLOCK]; axis.range.len().div_ceil(BLOCK)];
    dot_product::weigh(&row, &windows, &mut out);
    for (position, pixel) in axis.range.clone().zip(out.as_flattened()) {
        let levels = pixel[..CHANNELS].iter().copied().map(f64::from);
        let sample = |channel: usize, x: usize| level(row[CHANNELS * x + channel]);
        // The result is rounded to the nearest level.
        let bound = |taps| 0.5 + fixed_point_bound(taps);
        assert_means(axis, position, levels, sample, bound);
    }
    true
}

#[test]
fn fixed_point_kernels_equal_the_definition_if_this_cpu_runs_them() {
    let is_supported = has_features!("avx512f", "avx512bw", "avx512vbmi", "avx512vnni");
    let ran = |check: &dyn Fn(&Axis) -> bool| {
        let accepted =
            AXES.map(|(source, target)| has_instructions() && check(&Axis::full(source, target)));
        accepted.contains(&true)
    };
    let prefix_sum = |axis: &Axis| {
        check_prefix_sum(axis, std::iter::repeat(255)) && check_prefix_sum(axis, noise_levels())
    };
    assert_eq!(ran(&prefix_sum), is_supported, "prefix sum");
    assert_eq!(ran(&check_dot_product), is_supported, "dot product");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dot_products_equal_the_definition_at_any_scale(axis in any_columns()) {
        if has_instructions() {
            check_dot_product(&axis);
        }
    }

    #[test]
    fn prefix_sums_equal_the_definition_at_any_scale_and_range(axis in any_rows()) {
        if has_instructions() {
            let accepted = check_prefix_sum(&axis, noise_levels());
            let scales = axis.target..=22 * axis.target;
            prop_assert_eq!(accepted, scales.contains(&axis.source), "{:?}", axis);
        }
    }
}

#[test]
fn axes_that_do_not_fit_are_refused() {
    // Scales from 1 to 22.
    for (source, target) in [(1, 2), (223, 224), (23, 1), (441, 20), (1, 0)] {
        let image = vec![0; STRIDE * source as usize];
        let sums = PrefixSum::new(&image, STRIDE, &Axis::full(source, target));
        assert!(sums.is_none(), "{source} to {target}");
    }
    // Up to forty taps.
    for (source, target, accepted) in [
        (512, 224, true),
        (512, 384, true),
        (1440, 224, true),
        (9000, 224, false),
        (64, 0, false),
    ] {
        let windows = DotProduct::new(&Axis::full(source, target));
        assert_eq!(windows.is_some(), accepted, "{source} to {target}");
    }
}

/// Returns all samples of a resized image.
fn samples(mut rows: RoundedRows<'_>, view: &View) -> Vec<u8> {
    let width = view.columns.range.len();
    let mut samples = Vec::new();
    while let Some(row) = rows.next() {
        samples.extend(row[..width].iter().flat_map(|&[r, g, b, _]| [r, g, b]));
    }
    samples
}

#[test]
fn fixed_point_is_chosen_where_the_cpu_has_its_instructions_and_the_image_fits() {
    let detected = has_features!("avx512f", "avx512bw", "avx512vbmi", "avx512vnni");
    assert_eq!(has_instructions(), detected);
    // The second image grows, and the third one is narrow.
    for (source, target, fits) in [
        ((300, 200), (40, 30), true),
        ((100, 50), (150, 100), false),
        ((30, 90), (20, 40), false),
    ] {
        let image = synthetic::noise(source.0, source.1);
        let view = View::full(source, target);
        let is_fixed = FixedPointRows::new(&image, &view).is_some();
        assert_eq!(is_fixed, fits && detected, "{source:?}");
        let chosen = samples(rounded(&image, &view), &view);
        let float = samples(RoundedRows::float(&image, &view), &view);
        assert_eq!(chosen != float, is_fixed, "{source:?}");
    }
}
