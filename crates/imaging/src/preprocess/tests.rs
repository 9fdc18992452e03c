use image::{Rgb, RgbImage};

use super::*;
use crate::synthetic::{noise, synthetic};

mod golden;

pub(super) const MODES: [Mode; 4] = [
    Mode::Stretch,
    Mode::Letterbox,
    Mode::CenterCrop,
    Mode::ShortSide,
];

/// Returns preprocessing to `size` (width, height) with ImageNet's mean and standard deviation.
pub(super) fn to(size: (u32, u32), profile: Profile, mode: Mode) -> Preprocess {
    Preprocess {
        width: size.0,
        height: size.1,
        profile,
        mode,
        ..Preprocess::default()
    }
}

/// Returns the row of an image.
pub(super) fn row(preprocess: &Preprocess, image: &RgbImage) -> Vec<f32> {
    let mut row = vec![f32::NAN; preprocess.row_len(image.dimensions())];
    preprocess.write(image, &mut row);
    row
}

/// Returns the pixels of a row in either layout.
fn pixels(preprocess: &Preprocess, image: &RgbImage) -> Vec<[f32; 3]> {
    let row = row(preprocess, image);
    match preprocess.layout {
        Layout::Nhwc => row.as_chunks().0.to_vec(),
        Layout::Nchw => {
            let plane = row.len() / 3;
            (0..plane)
                .map(|at| [row[at], row[plane + at], row[2 * plane + at]])
                .collect()
        }
    }
}

#[test]
fn the_default_equals_the_fast_path() {
    let preprocess = Preprocess::default();
    assert_eq!(preprocess.row_len((97, 61)), 3 * 224 * 224);
    let normalization = preprocess.normalization();
    assert_eq!(normalization.mean, [123.675, 116.28, 103.53]);
    for source in [synthetic(97, 61), noise(640, 480), RgbImage::new(0, 3)] {
        let mut expected = vec![f32::NAN; 3 * 224 * 224];
        preprocess_into(&source, (224, 224), &normalization, &mut expected);
        assert!(row(&preprocess, &source) == expected);
    }
}

#[test]
fn nhwc_is_nchw_transposed() {
    let source = noise(37, 22);
    for profile in Profile::ALL {
        for mode in MODES {
            let planar = to((19, 30), profile, mode);
            let interleaved = Preprocess {
                layout: Layout::Nhwc,
                ..planar.clone()
            };
            let same = pixels(&planar, &source) == pixels(&interleaved, &source);
            assert!(same, "{profile:?} {mode:?}");
        }
    }
}

#[test]
fn images_are_placed_by_the_mode() {
    use Mode::*;
    // The size of the image, the configured size, the scaled size, and the corner.
    let cases = [
        (Stretch, (1440, 1080), (8, 6), (8, 6), (0, 0)),
        (Letterbox, (1440, 1080), (224, 224), (224, 168), (0, 28)),
        (Letterbox, (1080, 1440), (224, 224), (168, 224), (28, 0)),
        // 2 · 4 / 3 rounds to 3: nothing is padded.
        (Letterbox, (3, 2), (4, 3), (4, 3), (0, 0)),
        (Letterbox, (100, 1), (4, 4), (4, 1), (0, 1)),
        (Letterbox, (5, 10), (8, 10), (5, 10), (1, 0)),
        (CenterCrop, (1440, 1080), (224, 224), (299, 224), (-37, 0)),
        (CenterCrop, (1080, 1440), (224, 224), (224, 299), (0, -37)),
        (CenterCrop, (5, 5), (4, 3), (4, 4), (0, 0)),
        (CenterCrop, (2, 9), (4, 3), (4, 18), (0, -7)),
        (ShortSide, (1440, 1080), (320, 224), (299, 224), (0, 0)),
        (ShortSide, (1080, 1440), (224, 320), (224, 299), (0, 0)),
        // 3 · 3 / 2 = 4.5 rounds up.
        (ShortSide, (3, 2), (3, 3), (5, 3), (0, 0)),
        (ShortSide, (0, 0), (3, 2), (2, 2), (0, 0)),
    ];
    for (mode, size, set, scaled, at) in cases {
        let preprocess = to(set, Profile::Jax, mode);
        let output = if mode == ShortSide { scaled } else { set };
        let expected = Placement { scaled, output, at };
        assert_eq!(preprocess.placement(size), expected, "{mode:?} {size:?}");
        assert_eq!(preprocess.output_size(size), output);
    }
}

#[test]
fn every_size_is_placed_inside_the_output() {
    let sides = [0, 1, 2, 65_535, u32::MAX];
    for mode in MODES {
        for size in sides.into_iter().flat_map(|w| sides.map(|h| (w, h))) {
            let placed = to((8, 6), Profile::Pil, mode).placement(size);
            let view = placed.view((size.0.max(1), size.1.max(1)));
            for (axis, scaled) in [
                (view.columns, placed.scaled.0),
                (view.rows, placed.scaled.1),
            ] {
                let inside = !axis.range.is_empty() && axis.range.end <= scaled;
                assert!(inside, "{mode:?} {size:?}: {placed:?}");
            }
        }
    }
}

#[test]
fn a_letterbox_is_the_scaled_image_with_padding_around() {
    for (size, (left, top, width, height)) in
        [((40, 20), (0, 6, 24, 12)), ((20, 40), (6, 0, 12, 24))]
    {
        let source = noise(size.0, size.1);
        for profile in Profile::ALL {
            for layout in [Layout::Nchw, Layout::Nhwc] {
                let letterbox = Preprocess {
                    pad: [7, 114, 255],
                    layout,
                    ..to((24, 24), profile, Mode::Letterbox)
                };
                let inner = pixels(&to((width, height), profile, Mode::Stretch), &source);
                // (pad / 255 − mean) / std
                let pad = [-1.998_03, -0.039_915_966, 2.64];
                for (at, pixel) in pixels(&letterbox, &source).into_iter().enumerate() {
                    let (x, y) = (
                        (at as u32 % 24).wrapping_sub(left),
                        (at as u32 / 24).wrapping_sub(top),
                    );
                    if x < width && y < height {
                        assert_eq!(
                            pixel,
                            inner[(y * width + x) as usize],
                            "{profile:?} at {at}"
                        );
                    } else {
                        let apart = [0, 1, 2].map(|c| (pixel[c] - pad[c]).abs());
                        assert!(apart.iter().all(|a| *a < 1e-5), "{pixel:?} at {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_center_crop_is_the_middle_of_the_scaled_image() {
    // The size of the image, the scaled size, and the cropped columns and rows.
    let cases = [
        ((60, 90), (32, 48), (0, 8)),
        ((90, 60), (48, 32), (8, 0)),
        ((7, 10), (32, 46), (0, 7)),
        ((700, 520), (43, 32), (5, 0)),
    ];
    for (size, scaled, (left, top)) in cases {
        let source = noise(size.0, size.1);
        for profile in Profile::ALL {
            let cropped = pixels(&to((32, 32), profile, Mode::CenterCrop), &source);
            let uncropped = pixels(&to(scaled, profile, Mode::Stretch), &source);
            // Pillow's weights depend on how the crop is computed, which may change a rounding.
            let level = 1.0 / (255.0 * 0.224);
            let most = if profile == Profile::Pil {
                1.01 * level
            } else {
                0.0
            };
            for (at, pixel) in cropped.into_iter().enumerate() {
                let (x, y) = (left + at % 32, top + at / 32);
                let expected = uncropped[y * scaled.0 as usize + x];
                for (ours, theirs) in pixel.into_iter().zip(expected) {
                    assert!(
                        (ours - theirs).abs() <= most,
                        "{profile:?} {size:?} at {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn cropped_pixels_are_not_computed() {
    // Scaled, it would be 8 × 480,000 pixels. Its center lies between a dark and a light pixel.
    let source = RgbImage::from_fn(
        1,
        60_000,
        |_, y| Rgb([if y < 30_000 { 10 } else { 200 }; 3]),
    );
    for profile in Profile::ALL {
        let crop = Preprocess {
            mean: [0.0; 3],
            std: [1.0 / 255.0; 3],
            ..to((8, 6), profile, Mode::CenterCrop)
        };
        for (at, [level, ..]) in pixels(&crop, &source).into_iter().enumerate() {
            let expected = 10.0 + 190.0 * ((at / 8) as f32 + 1.5) / 8.0;
            assert!(
                (level - expected).abs() <= 1.0,
                "{profile:?} at {at}: {level}"
            );
        }
    }
}

/// Asserts that every pixel of an image becomes these values.
fn assert_flat(preprocess: &Preprocess, image: &RgbImage, expected: [f32; 3]) {
    let pixels = pixels(preprocess, image);
    let (width, height) = preprocess.output_size(image.dimensions());
    assert_eq!(pixels.len(), (width * height) as usize);
    for pixel in pixels {
        let apart = [0, 1, 2].map(|c: usize| (pixel[c] - expected[c]).abs());
        let same = apart.iter().all(|apart| *apart < 1e-5);
        assert!(same, "{:?} {preprocess:?}: {pixel:?}", image.dimensions());
    }
}

#[test]
fn tiny_and_flat_images_keep_their_level_in_every_mode() {
    for size in [(1, 1), (1, 50), (50, 1), (2, 3), (3, 400)] {
        let source = RgbImage::from_pixel(size.0, size.1, Rgb([51, 102, 204]));
        for (profile, mode) in Profile::ALL.into_iter().flat_map(|p| MODES.map(|m| (p, m))) {
            let preprocess = Preprocess {
                pad: [51, 102, 204],
                mean: [0.0; 3],
                std: [1.0; 3],
                ..to((8, 6), profile, mode)
            };
            assert_flat(&preprocess, &source, [0.2, 0.4, 0.8]);
        }
    }
}

#[test]
fn an_image_without_pixels_is_black() {
    let black = [-2.117_904, -2.035_714, -1.804_444_4];
    for size in [(0, 0), (0, 7), (7, 0)] {
        for (profile, mode) in Profile::ALL.into_iter().flat_map(|p| MODES.map(|m| (p, m))) {
            let preprocess = Preprocess {
                pad: [200; 3],
                ..to((8, 6), profile, mode)
            };
            assert_flat(&preprocess, &RgbImage::new(size.0, size.1), black);
        }
    }
}

#[test]
fn values_are_normalized_to_a_hundred_thousandth() {
    // Every level once per channel. An image of the configured size is not resized.
    let source = RgbImage::from_fn(16, 16, |x, y| {
        Rgb([0, 85, 170].map(|c| (16 * y + x) as u8 ^ c))
    });
    let centered = ([0.5; 3], [0.5; 3]);
    let default = Preprocess::default();
    for (mean, std) in [(default.mean, default.std), centered] {
        for profile in Profile::ALL {
            let preprocess = Preprocess {
                mean,
                std,
                ..to((16, 16), profile, Mode::Stretch)
            };
            for (pixel, levels) in pixels(&preprocess, &source).iter().zip(source.pixels()) {
                for c in 0..3 {
                    let sample = f64::from(levels[c]) / 255.0;
                    let exact = (sample - f64::from(mean[c])) / f64::from(std[c]);
                    let apart = (f64::from(pixel[c]) - exact).abs();
                    assert!(
                        apart <= 1e-5 * exact.abs(),
                        "{profile:?} {levels:?}: {pixel:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn names_are_as_users_write_them() {
    let names = serde_json::json!([Profile::ALL, MODES, [Layout::Nchw, Layout::Nhwc]]);
    let expected = serde_json::json!([
        ["torchvision", "jax", "pil", "opencv"],
        ["stretch", "letterbox", "center_crop", "short_side"],
        ["NCHW", "NHWC"],
    ]);
    assert_eq!(names, expected);
}

#[test]
#[should_panic(expected = "a row of 3×4×6")]
fn a_row_of_another_length_is_refused() {
    to((6, 4), Profile::Jax, Mode::Stretch).write(&synthetic(4, 4), &mut [0.0; 71]);
}
