//! The picture that the reference scripts compute as well, and readers for what they stored.

use std::path::PathBuf;

use image::{Rgb, RgbImage};

/// A ramp and a texture in each channel, by the integer formula of `scripts/references/imaging.py`.
pub fn synthetic(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        Rgb([0, 1, 2].map(|c: u32| {
            let ramp = (2 * ((x * 5 + y * 3 + c * 40) % 256)).abs_diff(255);
            let texture = ((x * x + 7 * y * (c + 1)) >> 2) & 63;
            (ramp * 3 / 4 + texture) as u8
        }))
    })
}

/// The bytes of a file in `tests/fixtures/imaging`.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/imaging")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The numbers in `reference.json`.
pub fn reference() -> serde_json::Value {
    serde_json::from_slice(&fixture("reference.json")).unwrap()
}

/// A stored picture.
pub fn picture(name: &str) -> RgbImage {
    image::load_from_memory(&fixture(name)).unwrap().to_rgb8()
}

/// Asserts that two pictures have one size and that no sample differs by more than `levels`.
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
