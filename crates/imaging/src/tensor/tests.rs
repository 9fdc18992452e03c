use super::*;
use crate::synthetic::{antialiased, noise, synthetic};
use image::Rgb;
use proptest::prelude::*;

/// Returns OpenCV's `INTER_LINEAR` by definition, one sample after the other.
fn opencv(image: &RgbImage, (width, height): (u32, u32)) -> RgbImage {
    let taps = |from: u32, to: u32, at: u32| {
        let scale = f64::from(from) / f64::from(to);
        let center = ((f64::from(at) + 0.5) * scale - 0.5) as f32;
        let share = center - center.floor();
        let sample = |index: i64| index.clamp(0, i64::from(from) - 1) as u32;
        let first = center.floor() as i64;
        let weight = |share: f32| (share * 2048.0).round_ties_even() as i32;
        [
            (sample(first), weight(1.0 - share)),
            (sample(first + 1), weight(share)),
        ]
    };
    RgbImage::from_fn(width, height, |x, y| {
        Rgb([0, 1, 2].map(|channel: usize| {
            let across = taps(image.width(), width, x);
            let rows = taps(image.height(), height, y).map(|(row, weight)| {
                let parts = across.map(|(x, w)| i32::from(image[(x, row)][channel]) * w);
                (((parts[0] + parts[1]) >> 4) * weight) >> 16
            });
            ((rows[0] + rows[1] + 2) >> 2) as u8
        }))
    })
}

fn imagenet(order: ChannelOrder) -> Normalization {
    Normalization {
        order,
        mean: [123.675, 116.28, 103.53],
        scale: [0.017_124_754, 0.017_507_003, 0.017_429_194],
    }
}

/// Returns the row by definition, with `scaled` at the top left.
fn expected_row(scaled: &RgbImage, side: (u32, u32), normalization: &Normalization) -> Vec<f32> {
    let mut row = Vec::new();
    for (plane, channel) in normalization.planes().into_iter().enumerate() {
        for (y, x) in (0..side.1).flat_map(|y| (0..side.0).map(move |x| (y, x))) {
            let sample = scaled.get_pixel_checked(x, y).map_or(0, |p| p[channel]);
            row.push((f32::from(sample) - normalization.mean[plane]) * normalization.scale[plane]);
        }
    }
    row
}

fn assert_letterboxed(from: (u32, u32), to: (u32, u32)) {
    let source = noise(from.0, from.1);
    let normalization = imagenet(ChannelOrder::Bgr);
    let mut row = vec![f32::NAN; 3 * (to.0 * to.1) as usize];
    let fit = Letterbox::fit(from, to);
    letterbox_into(&source, &fit, &normalization, &mut row);
    let scaled = opencv(&source, (fit.width, fit.height));
    let same = row == expected_row(&scaled, to, &normalization);
    assert!(same, "{from:?} to {to:?}");
}

#[test]
fn a_letterboxed_row_equals_the_definition_bit_for_bit() {
    for (from, to) in [
        ((1, 1), (1, 1)),
        ((1, 1), (33, 20)),
        ((2, 1), (64, 64)),
        ((1, 700), (64, 64)),
        ((700, 1), (64, 32)),
        ((3, 1999), (96, 96)),
        ((1280, 886), (640, 640)),
        ((640, 480), (640, 640)),
    ] {
        assert_letterboxed(from, to);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_letterboxed_row_equals_the_definition_at_any_size(
        from in (1u32..300, 1u32..300),
        to in (1u32..150, 1u32..150),
    ) {
        assert_letterboxed(from, to);
    }

    #[test]
    fn a_preprocessed_row_is_within_rounding_of_the_definition(
        from in (1u32..300, 1u32..300),
        to in (1u32..100, 1u32..100),
    ) {
        let source = noise(from.0, from.1);
        let mut row = vec![f32::NAN; 3 * (to.0 * to.1) as usize];
        let identity = Normalization::identity(ChannelOrder::Rgb);
        preprocess_into(&source, to, &identity, &mut row);
        let exact = antialiased(&source, to);
        for (at, (ours, exact)) in row.iter().zip(exact).enumerate() {
            let apart = (f64::from(*ours) - exact).abs();
            prop_assert!(apart <= 0.6, "{at}: {ours}, exactly {exact}");
        }
    }
}

#[test]
fn a_letterboxed_image_without_pixels_is_padding() {
    let normalization = imagenet(ChannelOrder::Rgb);
    let black = expected_row(&RgbImage::new(1, 1), (4, 3), &normalization);
    let mut row = vec![f32::NAN; 36];
    let empty = RgbImage::new(7, 0);
    let fit = Letterbox::fit(empty.dimensions(), (4, 3));
    letterbox_into(&empty, &fit, &normalization, &mut row);
    assert_eq!(row, black);
}

#[test]
fn planes_are_ordered_normalized_and_padded() {
    let image = RgbImage::from_pixel(2, 1, Rgb([10, 20, 30]));
    let normalization = Normalization {
        order: ChannelOrder::Bgr,
        mean: [1.0, 2.0, 3.0],
        scale: [0.5, 1.0, 2.0],
    };
    let mut row = vec![f32::NAN; 3 * 2 * 4];
    let fit = Letterbox::fit(image.dimensions(), (4, 2));
    letterbox_into(&image, &fit, &normalization, &mut row);
    assert_eq!((fit.width, fit.height, fit.scale), (4, 2, 2.0));
    assert_eq!(row[..8], [14.5; 8]);
    assert_eq!(row[8..16], [18.0; 8]);
    assert_eq!(row[16..], [14.0; 8]);

    let mut row = vec![f32::NAN; 3 * 3 * 4];
    let fit = Letterbox::fit(image.dimensions(), (4, 3));
    letterbox_into(&image, &fit, &normalization, &mut row);
    assert_eq!((fit.width, fit.height), (4, 2));
    assert_eq!(row[..8], [14.5; 8]);
    assert_eq!(row[8..12], [-0.5; 4]);
    assert_eq!(row[20..24], [-2.0; 4]);
    assert_eq!(row[32..], [-6.0; 4]);
}

#[test]
fn an_image_that_fits_is_not_enlarged() {
    let multiple = NonZeroU32::new(32).unwrap();
    for (size, scaled, minimal, square) in [
        ((250, 250), (250, 250), (256, 256), (256, 256)),
        ((300, 100), (300, 100), (320, 128), (320, 320)),
        ((1280, 886), (640, 443), (640, 448), (640, 640)),
        ((1, 1), (1, 1), (32, 32), (32, 32)),
    ] {
        let letterbox = Letterbox::shrink(size, (640, 640));
        assert_eq!((letterbox.width, letterbox.height), scaled);
        assert_eq!(letterbox.with_minimal_padding(multiple).input, minimal);
        assert_eq!(letterbox.with_square_padding(multiple).input, square);
    }
    assert_eq!(Letterbox::shrink((64, 32), (640, 640)).scale, 1.0);
}

#[test]
fn minimal_padding_changes_only_the_padding() {
    let multiple = NonZeroU32::new(32).unwrap();
    for (size, input) in [
        ((1280, 886), (640, 448)),
        ((480, 640), (480, 640)),
        ((640, 449), (640, 480)),
        ((900, 900), (640, 640)),
        ((5000, 1), (640, 32)),
    ] {
        let square = Letterbox::fit(size, (640, 640));
        let minimal = square.with_minimal_padding(multiple);
        assert_eq!(minimal.input, input, "{size:?}");
        assert_eq!(
            Letterbox {
                input: square.input,
                ..minimal
            },
            square
        );
        assert_eq!(minimal.row_len(), 3 * (input.0 * input.1) as usize);
    }
    let source = noise(97, 31);
    let square = Letterbox::fit((97, 31), (64, 64));
    let minimal = square.with_minimal_padding(multiple);
    let identity = Normalization::identity(ChannelOrder::Rgb);
    let row = |letterbox: &Letterbox| {
        let mut row = vec![f32::NAN; letterbox.row_len()];
        letterbox_into(&source, letterbox, &identity, &mut row);
        row
    };
    let (square, minimal) = (row(&square), row(&minimal));
    for (plane, cut) in square.chunks(64 * 64).zip(minimal.chunks(64 * 32)) {
        assert_eq!(plane[..64 * 32], *cut);
        assert!(plane[64 * 32..].iter().all(|value| *value == 0.0));
    }
}

#[test]
fn the_far_corner_maps_back_to_within_half_a_network_pixel() {
    for size in [(3000, 2171), (970, 2204), (17, 1999), (1, 1)] {
        let fit = Letterbox::fit(size, (640, 640));
        assert!(fit.width <= 640 && fit.height <= 640);
        assert!(
            fit.width == 640 || fit.height == 640,
            "{size:?} fills a side"
        );
        let [x, y] = fit.to_image([fit.width as f32, fit.height as f32]);
        let tolerance = 0.5 / fit.scale + 1e-2;
        assert!((x - size.0 as f32).abs() <= tolerance, "{size:?} {x}");
        assert!((y - size.1 as f32).abs() <= tolerance, "{size:?} {y}");
    }
}

#[test]
fn fill_row_is_the_image() {
    let image = synthetic(5, 3);
    let mut row = vec![0.0; 45];
    fill_row(
        &image,
        &Normalization::identity(ChannelOrder::Rgb),
        &mut row,
    );
    for (x, y, pixel) in image.enumerate_pixels() {
        for c in 0..3 {
            let at = c * 15 + (y * 5 + x) as usize;
            assert_eq!(row[at], f32::from(pixel[c]));
        }
    }
}

#[test]
#[should_panic(expected = "a row of 3×4×4")]
fn a_row_of_another_length_is_refused() {
    let identity = Normalization::identity(ChannelOrder::Rgb);
    let fit = Letterbox::fit((4, 4), (4, 4));
    letterbox_into(&synthetic(4, 4), &fit, &identity, &mut [0.0; 47]);
}
