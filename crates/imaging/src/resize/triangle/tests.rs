//! Compares every kernel with the definition in f64.

mod definition;
#[cfg(target_arch = "x86_64")]
mod fixed_point;

use proptest::prelude::*;

use super::{
    CHANNELS,
    direct_sum::{self, DirectSum},
    float_taps::{self, FloatTaps},
};
use crate::resize::{kernel_forms::noise, view::Axis};
use definition::{assert_means, float_bound};

/// The axes that every kernel is compared on: enlarged, equal, shrunk a little, and shrunk to windows that lie far apart.
const AXES: [(u32, u32); 16] = [
    (1, 1),
    (1, 40),
    (2, 1),
    (40, 40),
    (101, 100),
    (224, 223),
    (3, 2),
    (160, 224),
    (512, 224),
    (512, 384),
    (600, 200),
    (700, 200),
    (1440, 224),
    (99, 7),
    (22, 1),
    (440, 20),
];

/// Samples a row: a block of 128 and a block that overlaps it.
const STRIDE: usize = 171;

fn noise_levels() -> impl Iterator<Item = u8> {
    noise().map(|v| (v >> 8) as u8)
}

/// Returns the samples of an image whose columns are the axis.
fn image(axis: &Axis, samples: impl Iterator<Item = u8>) -> Vec<u8> {
    samples.take(STRIDE * axis.source as usize).collect()
}

fn check_direct_sum(axis: &Axis, samples: impl Iterator<Item = u8>) {
    let image = image(axis, samples);
    let mut rows = DirectSum::new(&image, STRIDE, axis);
    let mut out = vec![f32::NAN; STRIDE];
    for position in axis.range.clone() {
        direct_sum::sum(&rows.next().unwrap(), &mut out);
        let levels = out.iter().copied().map(f64::from);
        let sample = |x: usize, y: usize| f64::from(image[y * STRIDE + x]);
        assert_means(axis, position, levels, sample, float_bound);
    }
    assert!(rows.next().is_none());
}

fn check_float_taps(axis: &Axis) {
    let taps = FloatTaps::new(axis);
    let levels = noise().map(|v| f32::from(v % (255 * 64 + 1)) / 64.0);
    let mut row: Vec<f32> = levels.take(axis.source as usize * CHANNELS).collect();
    row.resize(row.len() + taps.overread(), 0.0);
    let mut out = vec![[f32::NAN; 16]; taps.quads()];
    float_taps::weigh(&row, &taps, &mut out);
    let pixels = out.as_flattened().as_chunks::<4>().0;
    for (position, pixel) in axis.range.clone().zip(pixels) {
        let levels = pixel[..CHANNELS].iter().copied().map(f64::from);
        let sample = |channel: usize, x: usize| f64::from(row[CHANNELS * x + channel]);
        assert_means(axis, position, levels, sample, float_bound);
    }
}

#[test]
fn float_kernels_equal_the_definition() {
    for (source, target) in AXES {
        let axis = Axis::full(source, target);
        check_direct_sum(&axis, std::iter::repeat(255));
        check_direct_sum(&axis, noise_levels());
        check_float_taps(&axis);
    }
}

fn any_columns() -> impl Strategy<Value = Axis> {
    (1u32..2000, 1u32..2000).prop_map(|(source, target)| Axis::full(source, target))
}

fn any_rows() -> impl Strategy<Value = Axis> {
    let parts = (1u32..400, 1u32..100, 0u32..20, 0u32..20);
    parts.prop_map(|(source, target, before, after)| {
        let start = before.min(target - 1);
        let range = start..target.saturating_sub(after).max(start + 1);
        Axis {
            source,
            target,
            range,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn float_taps_equal_the_definition_at_any_scale(axis in any_columns()) {
        check_float_taps(&axis);
    }

    #[test]
    fn direct_sums_equal_the_definition_at_any_scale_and_range(axis in any_rows()) {
        check_direct_sum(&axis, noise_levels());
    }
}
