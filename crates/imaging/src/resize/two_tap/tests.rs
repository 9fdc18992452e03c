//! Compares every form of both kernels with OpenCV's arithmetic, one sample after the other.

use multiversion::{multiversion, target::match_target};
use proptest::prelude::*;

use super::{
    horizontal::{self, TapPairs},
    vertical, *,
};
use crate::resize::kernel_forms::{has_features, noise, not_run};

// Each function runs one form and returns `true`, or returns `false` if the CPU cannot run it.

fn horizontal_portable(source: &[u8], taps: &TapPairs, out: &mut [Block]) -> bool {
    horizontal::portable(source, taps, out);
    true
}

#[multiversion(targets("x86_64+avx2"))]
fn horizontal_avx2(source: &[u8], taps: &TapPairs, out: &mut [Block]) -> bool {
    match_target! {
        "x86_64+avx2" => {
            horizontal::avx2::interpolate(source, taps, out);
            true
        },
        _ => not_run((source, taps, out)),
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vbmi"))]
fn horizontal_avx512(source: &[u8], taps: &TapPairs, out: &mut [Block]) -> bool {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi" => {
            horizontal::avx512::interpolate(source, taps, out);
            true
        },
        _ => not_run((source, taps, out)),
    }
}

fn vertical_portable(rows: [&Block; 2], weights: &Weights) -> Option<[Pixel; BLOCK]> {
    Some(vertical::portable(rows, weights))
}

#[multiversion(targets("x86_64+avx2"))]
fn vertical_avx2(rows: [&Block; 2], weights: &Weights) -> Option<[Pixel; BLOCK]> {
    match_target! {
        "x86_64+avx2" => Some(vertical::avx2::blend(rows, weights)),
        _ => {
            let _ = (rows, weights);
            None
        },
    }
}

type Horizontal = fn(&[u8], &TapPairs, &mut [Block]) -> bool;
type Vertical = fn([&Block; 2], &Weights) -> Option<[Pixel; BLOCK]>;

const HORIZONTAL: [Horizontal; 3] = [horizontal_portable, horizontal_avx2, horizontal_avx512];
const VERTICAL: [Vertical; 2] = [vertical_portable, vertical_avx2];

/// Asserts that a form interpolates `row`, the last of an image, as OpenCV does. Returns whether it ran.
fn horizontal_ran(form: Horizontal, row: &[u8], width: u32) -> bool {
    let axis = Axis::full((row.len() / RGB) as u32, width);
    let columns = TapPairs::new(taps(&axis));
    let mut out = vec![[u16::MAX; 4 * BLOCK]; (width as usize).div_ceil(BLOCK)];
    if !form(row, &columns, &mut out) {
        return false;
    }
    for (taps, pixel) in taps(&axis).zip(out.as_flattened().as_chunks::<4>().0) {
        let [left, right] = taps.weights.map(i32::from);
        for (channel, ours) in pixel.iter().take(RGB).enumerate() {
            let sample = |at: usize| i32::from(row[RGB * at + channel]);
            let sum = sample(taps.first) * left + sample(taps.second) * right;
            assert_eq!(i32::from(*ours), sum >> 4, "{axis:?}");
        }
    }
    true
}

/// Asserts that a form blends two rows as OpenCV does. Returns whether it ran.
fn vertical_ran(form: Vertical, rows: [&Block; 2], upper_weight: u16) -> bool {
    let weights = [upper_weight, (1 << WEIGHT_BITS) - upper_weight];
    let Some(pixels) = form(rows, &Weights::new(weights)) else {
        return false;
    };
    let samples = rows[0].iter().zip(rows[1]);
    for (ours, (upper, lower)) in pixels.as_flattened().iter().zip(samples) {
        let [upper, lower] = [(upper, weights[0]), (lower, weights[1])]
            .map(|(sample, weight)| (u32::from(*sample) * u32::from(weight)) >> 16);
        assert_eq!(u32::from(*ours), (upper + lower + 2) >> 2);
    }
    true
}

fn noise_row(pixels: usize) -> Vec<u8> {
    let samples = noise().map(|v| (v >> 8) as u8);
    samples.take(pixels * RGB).collect()
}

#[test]
fn every_form_that_this_cpu_supports_equals_opencv() {
    // From scales at which a load holds four pixels to scales at which it does not, and rows shorter than a load.
    let axes = [
        (1, 1),
        (1, 40),
        (2, 1),
        (7, 3),
        (640, 640),
        (1280, 640),
        (4000, 640),
        (4200, 640),
        (4000, 9),
    ];
    let horizontal = HORIZONTAL.map(|form| {
        axes.map(|(pixels, width)| {
            horizontal_ran(form, &vec![255; pixels * RGB], width)
                && horizontal_ran(form, &noise_row(pixels), width)
        })
        .into_iter()
        .all(|ran| ran)
    });
    let mut samples = noise().map(|v| v % (255 * 128 + 1));
    let mut block = || -> Block { std::array::from_fn(|_| samples.next().unwrap()) };
    let rows = [block(), block()];
    let vertical = VERTICAL.map(|form| {
        [0, 1, 1000, 2047, 2048]
            .map(|weight| vertical_ran(form, rows.each_ref(), weight))
            .into_iter()
            .all(|ran| ran)
    });
    let avx2 = has_features!("avx2");
    let avx512_vbmi = has_features!("avx512f", "avx512bw", "avx512vbmi");
    assert_eq!(horizontal, [true, avx2, avx512_vbmi]);
    assert_eq!(vertical, [true, avx2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_form_interpolates_rows_of_any_width(pixels in 1usize..2000, width in 1u32..2000) {
        for form in HORIZONTAL {
            horizontal_ran(form, &noise_row(pixels), width);
        }
    }

    #[test]
    fn every_form_blends_rows_of_any_samples(
        upper in prop::collection::vec(0u16..=255 << 7, 4 * BLOCK),
        lower in prop::collection::vec(0u16..=255 << 7, 4 * BLOCK),
        upper_weight in 0u16..=1 << WEIGHT_BITS,
    ) {
        let rows = [upper, lower].map(|row| Block::try_from(row).unwrap());
        for form in VERTICAL {
            vertical_ran(form, rows.each_ref(), upper_weight);
        }
    }
}
