//! Comparisons of the horizontal kernels.

use super::Outcome;
use crate::resize::{
    Pixel,
    kernel_forms::noise,
    triangle::{
        BLOCK, CHANNELS,
        dot_product::DotProduct,
        float_taps::{self, FloatTaps},
        prefix_sum::LEVEL_BITS,
        tests::definition::{fixed_point_bound, float_bound, mean, window},
    },
    view::Axis,
};

/// Returns a row of noise in levels of [`LEVEL_BITS`] fractional bits.
fn row(axis: &Axis) -> Vec<i16> {
    let levels = 255 * (1 << LEVEL_BITS) + 1;
    let samples = noise().map(|v| (v % levels) as i16);
    samples.take(axis.source as usize * CHANNELS).collect()
}

/// Returns a level of such a row.
fn level(sample: i16) -> f64 {
    f64::from(sample) / f64::from(1 << LEVEL_BITS)
}

/// Asserts that the pixels of a row are within `bound(taps)` of the definition.
fn assert_row(
    axis: &Axis,
    row: &[i16],
    pixels: impl Iterator<Item = [f64; CHANNELS]>,
    bound: impl Fn(usize) -> f64,
) {
    for (position, pixel) in axis.range.clone().zip(pixels) {
        let window = window(axis, position);
        for (channel, ours) in pixel.into_iter().enumerate() {
            let exact = mean(&window, |x| level(row[CHANNELS * x + channel]));
            let apart = (ours - exact).abs();
            assert!(
                apart <= bound(window.len()) + 1e-9,
                "{axis:?} at {position}: {ours}, exactly {exact}"
            );
        }
    }
}

pub(in crate::resize::triangle::tests) fn float(axis: &Axis) -> Outcome {
    let (row, taps) = (row(axis), FloatTaps::new(axis));
    let mut levels: Vec<f32> = row.iter().map(|&v| level(v) as f32).collect();
    levels.resize(levels.len() + taps.overread(), 0.0);
    let mut out = vec![[f32::NAN; 16]; taps.quads()];
    float_taps::weigh(&levels, &taps, &mut out);
    let pixels = out.as_flattened().as_chunks::<4>().0.iter();
    let pixels = pixels.map(|&[r, g, b, _]| [r, g, b].map(f64::from));
    assert_row(axis, &row, pixels, float_bound);
    Outcome::Compared
}

/// Runs `weigh` on a row of noise.
fn dot(axis: &Axis, weigh: fn(&[i16], &DotProduct, &mut [[Pixel; BLOCK]]) -> bool) -> Outcome {
    let Some(windows) = DotProduct::new(axis) else {
        return Outcome::AxisRefused;
    };
    let row = row(axis);
    let mut padded = row.clone();
    padded.resize(row.len() + windows.overread(), 0);
    let mut out = vec![[[0; 4]; BLOCK]; axis.range.len().div_ceil(BLOCK)];
    if !weigh(&padded, &windows, &mut out) {
        return Outcome::MissingFeatures;
    }
    let pixels = out.as_flattened().iter();
    let pixels = pixels.map(|&[r, g, b, _]| [r, g, b].map(f64::from));
    // The result is rounded to the nearest level.
    assert_row(axis, &row, pixels, |taps| 0.5 + fixed_point_bound(taps));
    Outcome::Compared
}

pub(in crate::resize::triangle::tests) fn dot_portable(axis: &Axis) -> Outcome {
    dot(axis, super::dot_portable)
}

pub(in crate::resize::triangle::tests) fn dot_avx512(axis: &Axis) -> Outcome {
    dot(axis, super::dot_avx512)
}
