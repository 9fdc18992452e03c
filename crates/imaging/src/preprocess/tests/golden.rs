//! Compares the profiles with the values of their libraries, and with each other.

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::synthetic::{antialiased, assert_within, fixture, fixture_image, reference};

/// Returns the levels of a stretched image, pixel by pixel.
fn levels(profile: Profile, image: &RgbImage, size: (u32, u32)) -> Vec<f32> {
    let unscaled = Preprocess {
        layout: Layout::Nhwc,
        mean: [0.0; 3],
        std: [1.0 / 255.0; 3],
        ..to(size, profile, Mode::Stretch)
    };
    row(&unscaled, image)
}

/// Returns integer levels as an image.
fn as_image(levels: &[f32], (width, height): (u32, u32)) -> RgbImage {
    let bytes = levels.iter().map(|level| {
        let is_integer = (level - level.round()).abs() < 1e-4;
        assert!(is_integer && (-0.1..255.1).contains(level), "{level}");
        level.round() as u8
    });
    RgbImage::from_raw(width, height, bytes.collect()).unwrap()
}

/// Returns every 16th line of an image, from the first on. `width` is that of the image. The reference files of large
/// images have only these lines.
fn every_16th<T: Copy>(values: &[T], width: u32) -> Vec<T> {
    let line = 3 * width as usize;
    values.chunks(line).step_by(16).flatten().copied().collect()
}

fn every_16th_line(image: &RgbImage) -> RgbImage {
    let (width, height) = image.dimensions();
    RgbImage::from_raw(width, height.div_ceil(16), every_16th(image, width)).unwrap()
}

/// Returns the largest and the mean difference, and the share of values that differ.
fn difference(ours: &[f32], theirs: &[f32]) -> [f64; 3] {
    assert_eq!(ours.len(), theirs.len());
    let all = ours.len() as f64;
    let each = || {
        ours.iter()
            .zip(theirs)
            .map(|(a, b)| f64::from((a - b).abs()))
    };
    let different = each().filter(|apart| *apart > 1e-4).count() as f64;
    [
        each().fold(0.0, f64::max),
        each().sum::<f64>() / all,
        different / all,
    ]
}

#[test]
fn rounded_profiles_equal_their_library() {
    let cases = [
        (
            Profile::Torchvision,
            "torchvision",
            "torchvision_224.png",
            1,
        ),
        (Profile::Pil, "bilinear", "pil_224.png", 1),
        (Profile::Opencv, "bilinear_point", "opencv_224.png", 0),
    ];
    for (profile, name, large, most) in cases {
        let source = synthetic(97, 61);
        for size in [(40, 25), (150, 100)] {
            let name = format!("{name}_{}.png", size.0);
            let ours = as_image(&levels(profile, &source, size), size);
            assert_within(&ours, &fixture_image(&name), most, &name);
        }
        let source = synthetic(1440, 1080);
        let ours = as_image(&levels(profile, &source, (224, 224)), (224, 224));
        assert_within(&every_16th_line(&ours), &fixture_image(large), most, large);
    }
}

#[test]
fn rounding_once_differs_from_rounding_twice() {
    let size = (150, 100);
    let source = synthetic(97, 61);
    let theirs = ["torchvision_150.png", "bilinear_150.png"].map(fixture_image);
    for (own, profile) in [Profile::Torchvision, Profile::Pil].into_iter().enumerate() {
        let ours = as_image(&levels(profile, &source, size), size);
        let [own, other] = [own, 1 - own].map(|library| {
            let samples = ours.iter().zip(theirs[library].iter());
            samples.filter(|(a, b)| a != b).count()
        });
        assert!(2 * own < other, "{profile:?}: {own} and {other} differ");
    }
}

#[test]
fn the_opencv_profile_equals_opencv_bit_for_bit() {
    let ours = levels(Profile::Opencv, &synthetic(1440, 1080), (224, 224));
    let digest = Sha256::digest(as_image(&ours, (224, 224)).as_raw());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(reference()["profiles"]["opencv_sha256"], digest);
}

#[test]
fn the_jax_profile_is_within_a_thousandth_of_a_level_of_jax() {
    let small = synthetic(97, 61);
    let large = synthetic(1440, 1080);
    let cases = [
        (levels(Profile::Jax, &small, (40, 25)), "jax_40.f32"),
        (
            every_16th(&levels(Profile::Jax, &small, (150, 100)), 150),
            "jax_150.f32",
        ),
        (
            every_16th(&levels(Profile::Jax, &large, (224, 224)), 224),
            "jax_224.f32",
        ),
    ];
    for (ours, name) in cases {
        let bytes = fixture(name);
        let theirs: Vec<f32> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|&v| f32::from_le_bytes(v))
            .collect();
        let [most, ..] = difference(&ours, &theirs);
        assert!(most <= 1e-3, "{name}: {most} of a level");
    }
}

#[test]
fn profiles_are_as_far_apart_as_their_libraries() {
    let source = synthetic(1440, 1080);
    let row = |profile| levels(profile, &source, (224, 224));
    let [torchvision, jax, pil, opencv] = Profile::ALL.map(row);
    let reference = &reference()["profiles"];
    // One sample may move the largest difference, but not the mean.
    let cases = [
        ("jax_pil", difference(&jax, &pil), 0.1, 0.01),
        ("jax_torchvision", difference(&jax, &torchvision), 0.1, 0.01),
        (
            "torchvision_opencv",
            difference(&torchvision, &opencv),
            1.0,
            0.05,
        ),
    ];
    for (name, [most, mean, _], off_most, off_mean) in cases {
        let theirs = &reference[name];
        let [their_most, their_mean] = ["max", "mean"].map(|key| theirs[key].as_f64().unwrap());
        assert!(
            (most - their_most).abs() <= off_most,
            "{name}: {most}, theirs {their_most}"
        );
        assert!(
            (mean - their_mean).abs() <= off_mean,
            "{name}: {mean}, theirs {their_mean}"
        );
    }
    let [most, mean, _] = difference(&jax, &pil);
    assert!(
        most <= 0.93 && (mean - 0.26).abs() < 0.01,
        "{most}, mean {mean}"
    );
}

/// Returns a bilinear resize without antialias as torch defines it, unrounded, pixel by pixel.
fn without_antialias(image: &RgbImage, (width, height): (u32, u32)) -> Vec<f64> {
    let tap = |from: u32, to: u32, at: u32| {
        let center = ((f64::from(at) + 0.5) * f64::from(from) / f64::from(to) - 0.5).max(0.0);
        let first = center as u32;
        (first, (first + 1).min(from - 1), center.fract())
    };
    let mut levels = Vec::new();
    for y in 0..height {
        let (top, bottom, down) = tap(image.height(), height, y);
        for x in 0..width {
            let (left, right, across) = tap(image.width(), width, x);
            for c in 0..3 {
                let at = |x, y| f64::from(image[(x, y)][c]);
                let row = |y| at(left, y) * (1.0 - across) + at(right, y) * across;
                levels.push(row(top) * (1.0 - down) + row(bottom) * down);
            }
        }
    }
    levels
}

#[test]
fn without_antialias_torchvision_and_opencv_are_at_most_a_level_apart() {
    let source = synthetic(1440, 1080);
    let rounded = without_antialias(&source, (640, 1080));
    // From −1 to 1, where a level is 0.0078.
    let theirs: Vec<f32> = rounded
        .iter()
        .map(|level| (level.round_ties_even() / 127.5 - 1.0) as f32)
        .collect();
    let opencv = Preprocess {
        layout: Layout::Nhwc,
        mean: [0.5; 3],
        std: [0.5; 3],
        ..to((640, 1080), Profile::Opencv, Mode::Stretch)
    };
    let [most, mean, different] = difference(&row(&opencv, &source), &theirs);
    assert!((0.0078..0.0079).contains(&most), "{most}");
    assert!(mean < 0.0008, "{mean}");
    let reference = &reference()["profiles"]["without_antialias"];
    let expected = reference["different"].as_f64().unwrap() / rounded.len() as f64;
    assert!(
        (different - expected).abs() < 1e-4,
        "{different}, theirs {expected}"
    );
}

/// Asserts that the `jax` profile is within a thousandth of a level of its definition.
fn assert_exact(from: (u32, u32), size: (u32, u32)) {
    let source = noise(from.0, from.1);
    let unscaled = Preprocess {
        mean: [0.0; 3],
        std: [1.0 / 255.0; 3],
        ..to(size, Profile::Jax, Mode::Stretch)
    };
    let row = row(&unscaled, &source);
    for (at, (ours, exact)) in row.iter().zip(antialiased(&source, size)).enumerate() {
        let apart = (f64::from(*ours) - exact).abs();
        assert!(
            apart <= 1e-3,
            "{from:?} to {size:?}, {at}: {ours}, exactly {exact}"
        );
    }
}

#[test]
fn windows_of_thousands_of_samples_are_summed_exactly() {
    assert_exact((2000, 3000), (3, 2));
    assert_exact((9000, 2), (1, 1));
    assert_exact((2, 9000), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_jax_profile_equals_its_definition_at_any_size(
        from in (1u32..300, 1u32..300),
        size in (1u32..100, 1u32..100),
    ) {
        assert_exact(from, size);
    }
}
