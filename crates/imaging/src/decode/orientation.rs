//! Applies the EXIF orientation to pixels.

use image::RgbImage;
use image::imageops::{flip_horizontal_in_place, flip_vertical_in_place, rotate180_in_place};

use crate::orientation::quarter_turn;

/// Rotates and mirrors stored pixels so that they are upright. Values outside 2..=8 change nothing.
pub(super) fn upright(pixels: RgbImage, orientation: u8) -> RgbImage {
    // 5 and 7 are transpositions: a rotation by 90 degrees, then a reflection.
    let mut pixels = match orientation {
        5 | 6 => quarter_turn(&pixels, true),
        7 | 8 => quarter_turn(&pixels, false),
        _ => pixels,
    };
    match orientation {
        2 | 5 | 7 => flip_horizontal_in_place(&mut pixels),
        3 => rotate180_in_place(&mut pixels),
        4 => flip_vertical_in_place(&mut pixels),
        _ => {}
    }
    pixels
}

/// Returns whether the upright image has the stored width as its height.
pub(super) fn swaps_sides(orientation: u8) -> bool {
    matches!(orientation, 5..=8)
}

/// Returns whether a side of the upright image begins at the end of a stored side.
pub(super) fn mirrors(orientation: u8) -> bool {
    matches!(orientation, 2 | 3 | 4 | 6 | 7 | 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Rgb;

    /// Stored and upright pixels from the table of EXIF 2.3.
    #[test]
    fn pixels_are_moved_as_in_the_standard() {
        let stored = |letters: [u8; 6]| {
            RgbImage::from_fn(3, 2, |x, y| Rgb([letters[(y * 3 + x) as usize]; 3]))
        };
        let rows = |image: RgbImage| -> Vec<String> {
            image
                .rows()
                .map(|row| row.map(|p| char::from(p[0])).collect())
                .collect()
        };
        let cases: [(u8, &[&str]); 9] = [
            (0, &["abc", "def"]),
            (1, &["abc", "def"]),
            (2, &["cba", "fed"]),
            (3, &["fed", "cba"]),
            (4, &["def", "abc"]),
            (5, &["ad", "be", "cf"]),
            (6, &["da", "eb", "fc"]),
            (7, &["fc", "eb", "da"]),
            (8, &["cf", "be", "ad"]),
        ];
        for (orientation, expected) in cases {
            assert_eq!(
                rows(upright(stored(*b"abcdef"), orientation)),
                expected,
                "orientation {orientation}"
            );
        }
    }
}
