use multiversion::{multiversion, target::match_target};
use proptest::prelude::*;

use super::{columns::portable, *};

/// [`sample`] as it is where there is AVX2 and no more.
#[multiversion(targets("x86_64+avx2"))]
fn sample_with_avx2(source: &[u8], columns: &Columns, out: &mut [Block]) {
    match_target! {
        "x86_64+avx2" => x86::sample_256(source, columns, out),
        _ => portable(source, columns, out),
    }
}

/// [`mix`] as it is where there is AVX-512.
#[multiversion(targets("x86_64+avx512f+avx512bw"))]
fn mix_with_avx512(rows: [&Block; 2], weights: &Weights) -> [Pixel; BLOCK] {
    match_target! {
        "x86_64+avx512f+avx512bw" => x86::mix_512(rows, weights),
        _ => mix(rows, weights),
    }
}

/// [`mix`] as it is where there is AVX2.
#[multiversion(targets("x86_64+avx2"))]
fn mix_with_avx2(rows: [&Block; 2], weights: &Weights) -> [Pixel; BLOCK] {
    match_target! {
        "x86_64+avx2" => x86::mix_256(rows, weights),
        _ => mix(rows, weights),
    }
}

/// Asserts that every form samples `row`, the last of a picture, as the portable one does.
fn assert_sampled(row: &[u8], width: u32) {
    let columns = Columns::new(taps(&Axis::whole((row.len() / RGB) as u32, width)));
    let sampled = |form: fn(&[u8], &Columns, &mut [Block])| {
        let mut out = vec![[u16::MAX; 4 * BLOCK]; (width as usize).div_ceil(BLOCK)];
        form(row, &columns, &mut out);
        out
    };
    let expected = sampled(portable);
    let pixels = row.len() / RGB;
    assert!(sampled(sample) == expected, "{pixels} to {width}");
    assert!(
        sampled(sample_with_avx2) == expected,
        "{pixels} to {width} with AVX2"
    );
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| byte()).collect()
}

#[test]
fn rows_of_every_density_are_sampled_alike() {
    // From scales at which four pixels lie in one window to those at which none does, and rows shorter than one.
    for (from, to) in [
        (1, 1),
        (1, 40),
        (2, 1),
        (7, 3),
        (640, 640),
        (1280, 640),
        (4000, 640),
        (4200, 640),
        (4000, 9),
    ] {
        assert_sampled(&noise(from * RGB), to);
        assert_sampled(&vec![255; from * RGB], to);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_form_samples_alike(from in 1usize..2000, to in 1u32..2000) {
        assert_sampled(&noise(from * RGB), to);
    }

    #[test]
    fn every_form_mixes_alike(
        upper in prop::collection::vec(0u16..=255 << 7, 4 * BLOCK),
        lower in prop::collection::vec(0u16..=255 << 7, 4 * BLOCK),
        above in 0u16..=1 << WEIGHT_BITS,
    ) {
        let rows = [upper, lower].map(|row| Block::try_from(row).unwrap());
        let rows = [&rows[0], &rows[1]];
        let weights = Weights([[above; 32], [(1 << WEIGHT_BITS) - above; 32]]);
        let expected = mix(rows, &weights);
        prop_assert_eq!(mix_with_avx512(rows, &weights), expected);
        prop_assert_eq!(mix_with_avx2(rows, &weights), expected);
    }
}
