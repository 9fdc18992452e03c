//! Test support: synthetic images, which the reference scripts compute too, and readers for the reference files.

pub mod files;

use std::path::PathBuf;

use image::{Rgb, RgbImage};

/// Returns a ramp and a texture in each channel, by the integer formula of `tests/references/imaging.py`.
pub fn synthetic(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        Rgb([0, 1, 2].map(|c: u32| {
            let ramp = (2 * ((x * 5 + y * 3 + c * 40) % 256)).abs_diff(255);
            let texture = ((x * x + 7 * y * (c + 1)) >> 2) & 63;
            (ramp * 3 / 4 + texture) as u8
        }))
    })
}

/// Returns noise in each channel, so that a wrong stride changes every pixel.
pub fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 1u32;
    RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Rgb([24, 16, 8].map(|shift| (state >> shift) as u8))
    })
}

/// Returns the source samples of one target position of a line of `from` samples that is resized to `to`, with their
/// shares. Samples without a share are left out. `moved` replaces the center of the window.
pub(crate) fn shares(from: u32, to: u32, at: u32, moved: fn(f64) -> f64) -> Vec<(u32, f64)> {
    let scale = f64::from(from) / f64::from(to);
    let center = moved((f64::from(at) + 0.5) * scale);
    let weight = |x: u32| {
        let apart = (f64::from(x) + 0.5 - center) / scale.max(1.0);
        (1.0 - apart.abs()).max(0.0)
    };
    let sum: f64 = (0..from).map(weight).sum();
    (0..from)
        .map(|x| (x, weight(x) / sum))
        .filter(|(_, share)| *share > 0.0)
        .collect()
}

/// Returns the antialiased bilinear resize by definition, unrounded, as three planes.
pub fn antialiased(image: &RgbImage, size: (u32, u32)) -> Vec<f64> {
    antialiased_at(image, size, |center| center)
}

/// Returns [`antialiased`], but replaces the center of every window, in pixels of the image, by `moved(center)`.
pub fn antialiased_at(
    image: &RgbImage,
    (width, height): (u32, u32),
    moved: fn(f64) -> f64,
) -> Vec<f64> {
    let columns: Vec<_> = (0..width)
        .map(|x| shares(image.width(), width, x, moved))
        .collect();
    let mut planes = Vec::new();
    for channel in 0..3 {
        for y in 0..height {
            let rows = shares(image.height(), height, y, moved);
            planes.extend(columns.iter().map(|column| {
                let parts = rows.iter().flat_map(|&(y, down)| {
                    column.iter().map(move |&(x, across)| (x, y, down * across))
                });
                parts
                    .map(|(x, y, share)| f64::from(image[(x, y)][channel]) * share)
                    .sum::<f64>()
            }));
        }
    }
    planes
}

/// Returns the bytes of a file in `tests/fixtures`.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the numbers in `reference.json`.
pub fn reference() -> serde_json::Value {
    serde_json::from_slice(&fixture("reference.json")).expect("reference.json is JSON")
}

/// Returns a reference image.
pub fn fixture_image(name: &str) -> RgbImage {
    let image = image::load_from_memory(&fixture(name));
    image.expect("the file is an image").to_rgb8()
}

/// Asserts that two images have the same size and that no sample differs by more than `levels`.
pub fn assert_within(ours: &RgbImage, theirs: &RgbImage, levels: u8, what: &str) {
    assert_eq!(ours.dimensions(), theirs.dimensions(), "{what}");
    let worst = ours
        .as_raw()
        .iter()
        .zip(theirs.as_raw())
        .map(|(a, b)| a.abs_diff(*b))
        .max();
    assert!(
        worst <= Some(levels),
        "{what}: {worst:?} levels apart, allowed {levels}"
    );
}
