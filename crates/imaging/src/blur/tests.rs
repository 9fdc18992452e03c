use super::*;
use crate::{border::reflect_101, synthetic::noise};
use image::Rgb;
use proptest::prelude::*;

fn gaussian(kernel: u32, sigma: f32) -> Gaussian {
    Gaussian::new(kernel, sigma).unwrap()
}

#[test]
fn weights_equal_the_definition() {
    let half = [0.036633, 0.111281, 0.216745, 0.270682];
    let ours = gaussian(7, 1.5).weights();
    let theirs = half.iter().chain(half[..3].iter().rev());
    assert_eq!(ours.len(), 7);
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!((ours - theirs).abs() < 1e-6, "{ours} {theirs}");
    }
}

#[test]
fn kernels_have_an_odd_length_a_bound_and_a_positive_sigma() {
    for (kernel, sigma) in [(1, 1.0), (255, 60.0), (3, f32::MIN_POSITIVE), (3, f32::MAX)] {
        let weights = gaussian(kernel, sigma).weights();
        let sum: f32 = weights.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "{kernel} {sigma}: {sum}");
    }
    let wrong = [
        (0, 1.0),
        (4, 1.0),
        (257, 1.0),
        (7, 0.0),
        (7, -1.0),
        (7, f32::NAN),
        (7, f32::INFINITY),
    ];
    for (kernel, sigma) in wrong {
        assert_eq!(Gaussian::new(kernel, sigma), None, "{kernel} {sigma}");
    }
}

#[test]
fn a_flat_image_does_not_change() {
    for (width, height) in [(1, 1), (1, 5), (5, 1), (2, 2), (300, 3)] {
        let flat = RgbImage::from_pixel(width, height, Rgb([0, 93, 255]));
        for (kernel, sigma) in [(1, 1.0), (3, 0.5), (255, 40.0)] {
            assert_eq!(gaussian_blur(&flat, &gaussian(kernel, sigma)), flat);
        }
    }
    let empty = RgbImage::new(0, 7);
    assert_eq!(gaussian_blur(&empty, &gaussian(3, 1.0)), empty);
}

proptest! {
    #[test]
    fn a_blur_is_the_weighted_mean(
        (width, height) in (1u32..24, 1u32..24),
        half in 0u32..12,
        sigma in 0.3f32..9.0,
    ) {
        let error = error_of_blur(&noise(width, height), &gaussian(2 * half + 1, sigma));
        prop_assert!(error < 0.501, "{error}");
    }

    #[test]
    fn only_the_region_changes_and_the_kernel_reads_around_it(
        (width, height) in (1u32..60, 1u32..60),
        corners in (0u32..70, 0u32..70, 0u32..70, 0u32..70),
        half in 0u32..16,
    ) {
        let gaussian = gaussian(2 * half + 1, 0.4 + half as f32 / 2.0);
        assert_only_region_changes((width, height), corners, &gaussian, 0);
    }
}

/// Asserts that the region is that of the blurred image, to within some levels, and that the rest does not change.
fn assert_only_region_changes(
    (width, height): (u32, u32),
    (x1, y1, x2, y2): (u32, u32, u32, u32),
    gaussian: &Gaussian,
    most: u8,
) {
    let source = noise(width, height);
    let at = Region::from([x1, y1, x2, y2]);
    let complete = gaussian_blur(&source, gaussian);
    let mut ours = source.clone();
    blur_region(&mut ours, at, gaussian);
    for (x, y, pixel) in ours.enumerate_pixels() {
        let inside = (at.x1..at.x2).contains(&x) && (at.y1..at.y2).contains(&y);
        let (expected, most) = if inside {
            (&complete, most)
        } else {
            (&source, 0)
        };
        let expected = expected[(x, y)];
        let apart = (0..3).map(|c| pixel[c].abs_diff(expected[c])).max();
        assert!(apart <= Some(most), "{x} {y}: {pixel:?} {expected:?}");
    }
}

/// Returns a blurred line as a sum of all weights, reflected at its ends.
fn exact_line(line: &[f64], weights: &[f32]) -> Vec<f64> {
    let half = weights.len() as i64 / 2;
    (0..line.len() as i64)
        .map(|at| {
            (-half..)
                .zip(weights)
                .map(|(i, weight)| {
                    f64::from(*weight) * line[reflect_101(at + i, line.len() as u32)]
                })
                .sum()
        })
        .collect()
}

/// Returns the largest distance of a blur from the sum of all weights, in levels.
fn error_of_blur(source: &RgbImage, gaussian: &Gaussian) -> f64 {
    let weights = gaussian.weights();
    let ours = gaussian_blur(source, gaussian);
    let (width, height) = source.dimensions();
    let mut error: f64 = 0.0;
    for c in 0..3 {
        let rows: Vec<Vec<f64>> = (0..height)
            .map(|y| {
                let line: Vec<f64> = (0..width).map(|x| source[(x, y)][c].into()).collect();
                exact_line(&line, &weights)
            })
            .collect();
        for x in 0..width {
            let column: Vec<f64> = rows.iter().map(|row| row[x as usize]).collect();
            for (y, exact) in (0..).zip(exact_line(&column, &weights)) {
                error = error.max((f64::from(ours[(x, y)][c]) - exact).abs());
            }
        }
    }
    error
}

#[test]
fn long_kernels_are_within_a_level_of_the_weighted_mean() {
    let mut stripes = RgbImage::from_fn(331, 290, |x, y| {
        Rgb([
            255 * (x / 64 % 2) as u8,
            255 * (y / 90 % 2) as u8,
            255 * (x / 127 % 2) as u8,
        ])
    });
    for (x, y, pixel) in noise(100, 290).enumerate_pixels() {
        stripes[(x + 100, y)] = *pixel;
    }
    for (kernel, sigma) in [
        (43, 5.0),
        (99, 20.0),
        (255, 3.0),
        (255, 26.0),
        (255, 38.6),
        (255, 1e3),
    ] {
        // Half a level is rounding, and the rest the series' error.
        let error = error_of_blur(&stripes, &gaussian(kernel, sigma));
        assert!(error < 0.56, "{kernel} {sigma}: {error}");
    }
}

#[test]
fn errors_do_not_add_up_along_a_column() {
    let tall = RgbImage::from_fn(2, 30_000, |x, y| {
        let smooth = 120.0 + 120.0 * (f64::from(y) / 900.0).sin();
        // A black area has to stay black.
        let level = if y > 20_000 && y < 24_000 {
            0.0
        } else {
            smooth
        };
        Rgb([
            level as u8,
            (level / 2.0) as u8,
            255 * ((x + y / 7) % 2) as u8,
        ])
    });
    let error = error_of_blur(&tall, &gaussian(255, 60.0));
    assert!(error < 0.56, "{error}");
}

proptest! {
    #[test]
    fn long_kernels_work_on_images_of_any_size(
        (width, height) in (1u32..70, 1u32..70),
        half in 33u32..128,
        sigma in 2.0f32..90.0,
    ) {
        let error = error_of_blur(&noise(width, height), &gaussian(2 * half + 1, sigma));
        prop_assert!(error < 0.56, "{error}");
    }

    #[test]
    fn long_kernels_change_only_the_region(
        (width, height) in (1u32..200, 1u32..300),
        corners in (0u32..200, 0u32..300, 0u32..200, 0u32..300),
        half in 33u32..128,
    ) {
        // Sums that begin elsewhere are rounded in another way, so a level between two others can be either.
        let gaussian = gaussian(2 * half + 1, half as f32 / 3.0);
        assert_only_region_changes((width, height), corners, &gaussian, 1);
    }
}

#[test]
fn blocks_have_the_mean_of_their_pixels() {
    let mut ours = RgbImage::from_fn(9, 6, |x, y| Rgb([x as u8, 10 * y as u8, 200]));
    let before = ours.clone();
    // Six by four pixels, three blocks along the longer side: two by two pixels each.
    pixelate(&mut ours, Region::from([1, 1, 7, 5]), 3);
    for (x, y, pixel) in ours.enumerate_pixels() {
        if (1..7).contains(&x) && (1..5).contains(&y) {
            // The mean of two neighbors is half a level above the first and rounds up.
            let (left, top) = ((x - 1) / 2 * 2 + 1, (y - 1) / 2 * 2 + 1);
            assert_eq!(
                *pixel,
                Rgb([left as u8 + 1, 10 * top as u8 + 5, 200]),
                "{x} {y}"
            );
        } else {
            assert_eq!(*pixel, before[(x, y)], "{x} {y}");
        }
    }
}

#[test]
fn the_number_of_blocks_is_as_requested_and_at_most_the_pixels() {
    let colors = |size: (u32, u32), blocks: u32| {
        let mut image = RgbImage::from_fn(size.0, size.1, |x, y| Rgb([x as u8, y as u8, 0]));
        pixelate(&mut image, Region::full(size), blocks);
        let mut colors: Vec<_> = image.pixels().map(|p| p.0).collect();
        colors.sort_unstable();
        colors.dedup();
        colors.len()
    };
    assert_eq!(colors((50, 20), 7), 7 * 3);
    assert_eq!(colors((20, 50), 7), 7 * 3);
    assert_eq!(colors((50, 1), 7), 7);
    assert_eq!(colors((50, 20), 0), 1);
    assert_eq!(colors((5, 4), 100), 20);
    let mut image = noise(4, 4);
    pixelate(&mut image, Region::from([2, 2, 2, 4]), 3);
    pixelate(&mut image, Region::from([4, 0, 9, 4]), 3);
    assert_eq!(image, noise(4, 4));
}

#[test]
fn a_fill_changes_the_region_only() {
    let mut ours = noise(12, 9);
    fill(&mut ours, Region::from([5, 2, 40, 6]), [1, 2, 3]);
    let before = noise(12, 9);
    for (x, y, pixel) in ours.enumerate_pixels() {
        let inside = x >= 5 && (2..6).contains(&y);
        let expected = if inside {
            Rgb([1, 2, 3])
        } else {
            before[(x, y)]
        };
        assert_eq!(*pixel, expected, "{x} {y}");
    }
}
