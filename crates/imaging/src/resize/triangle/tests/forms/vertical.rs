//! Comparisons of the vertical kernels.

use super::Outcome;
use crate::resize::{
    kernel_forms::noise,
    triangle::{
        direct_sum::{self, DirectSum},
        prefix_sum::{Block, LEVEL_BITS, PrefixSum, SegmentRows},
        tests::definition::{float_bound, mean, window},
    },
    view::Axis,
};

/// Samples a row: a block of 128 and a block that overlaps it.
const STRIDE: usize = 171;

/// The maximum error of the prefix sum, in levels.
const PREFIX_SUM_BOUND: f64 = 4.0 / 64.0;

/// A form of the prefix sum. It returns `false` if the CPU cannot run it.
type Weigh = fn(&SegmentRows<'_>, &mut [Block], &mut [i16]) -> bool;

fn source(axis: &Axis, samples: impl Iterator<Item = u8>) -> Vec<u8> {
    samples.take(STRIDE * axis.source as usize).collect()
}

fn noise_levels() -> impl Iterator<Item = u8> {
    noise().map(|v| (v >> 8) as u8)
}

/// Asserts that a row in levels is within `bound(taps)` of the definition.
fn assert_row(
    axis: &Axis,
    position: u32,
    source: &[u8],
    row: impl Iterator<Item = f64>,
    bound: impl Fn(usize) -> f64,
) {
    let window = window(axis, position);
    let bound = bound(window.len()) + 1e-9;
    for (x, ours) in row.take(STRIDE).enumerate() {
        let exact = mean(&window, |y| f64::from(source[y * STRIDE + x]));
        let apart = (ours - exact).abs();
        assert!(
            apart <= bound,
            "{axis:?}, row {position}: {ours}, exactly {exact}"
        );
    }
}

pub(in crate::resize::triangle::tests) fn direct_sum(
    axis: &Axis,
    samples: impl Iterator<Item = u8>,
) -> Outcome {
    let source = source(axis, samples);
    let mut rows = DirectSum::new(&source, STRIDE, axis);
    let mut out = vec![f32::NAN; STRIDE];
    for position in axis.range.clone() {
        direct_sum::sum(&rows.next().unwrap(), &mut out);
        let levels = out.iter().copied().map(f64::from);
        assert_row(axis, position, &source, levels, float_bound);
    }
    assert!(rows.next().is_none());
    Outcome::Compared
}

pub(in crate::resize::triangle::tests) fn direct(axis: &Axis) -> Outcome {
    direct_sum(axis, noise_levels())
}

pub(in crate::resize::triangle::tests) fn prefix_sum(
    axis: &Axis,
    samples: impl Iterator<Item = u8>,
    weigh: Weigh,
) -> Outcome {
    let source = source(axis, samples);
    let mut has_run = true;
    let first = |rows: &SegmentRows<'_>, partial: &mut [Block], out: &mut [i16]| {
        has_run = weigh(rows, partial, out);
    };
    let Some(mut rows) = PrefixSum::with(first, &source, STRIDE, axis) else {
        return Outcome::AxisRefused;
    };
    if !has_run {
        return Outcome::MissingFeatures;
    }
    let mut out = vec![-1; STRIDE];
    let mut next = |out: &mut [i16]| {
        rows.next_with(
            |rows, partial, out| {
                weigh(rows, partial, out);
            },
            out,
        )
    };
    for position in axis.range.clone() {
        next(&mut out).unwrap();
        let levels = out
            .iter()
            .map(|v| f64::from(*v) / f64::from(1 << LEVEL_BITS));
        assert_row(axis, position, &source, levels, |_| PREFIX_SUM_BOUND);
    }
    assert!(next(&mut out).is_none(), "{axis:?}");
    Outcome::Compared
}

pub(in crate::resize::triangle::tests) fn prefix_portable(axis: &Axis) -> Outcome {
    prefix_sum(axis, std::iter::repeat(255), super::prefix_portable);
    prefix_sum(axis, noise_levels(), super::prefix_portable)
}

pub(in crate::resize::triangle::tests) fn prefix_avx512(axis: &Axis) -> Outcome {
    prefix_sum(axis, std::iter::repeat(255), super::prefix_avx512);
    prefix_sum(axis, noise_levels(), super::prefix_avx512)
}
