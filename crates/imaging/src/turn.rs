//! Turning, mirroring and greying pictures.

use image::RgbImage;
use image::imageops::{flip_horizontal, flip_vertical, rotate90, rotate180, rotate270};
use multiversion::multiversion;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The direction in which pixels change places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Left and right.
    Horizontal,
    /// Top and bottom.
    Vertical,
}

/// The picture turned clockwise by `degrees`.
///
/// Quarter turns move pixels as they are, and a quarter or three of them swap width and height. Any other angle keeps
/// the frame: the picture turns about its centre, is sampled bilinearly, and has `background` around it, as OpenCV's
/// `warpAffine(INTER_LINEAR, BORDER_CONSTANT)` has. An angle that is not finite turns nothing.
pub fn rotate(picture: &RgbImage, degrees: f32, background: [u8; 3]) -> RgbImage {
    // The remainder is exact.
    let degrees = degrees % 360.0;
    if degrees.is_nan() {
        return picture.clone();
    }
    if degrees % 90.0 != 0.0 {
        return turned(picture, degrees, background);
    }
    match (degrees / 90.0) as i32 {
        1 | -3 => rotate90(picture),
        2 | -2 => rotate180(picture),
        3 | -1 => rotate270(picture),
        _ => picture.clone(),
    }
}

/// The picture turned clockwise about the middle between its outermost pixels.
///
/// `imageproc` has this as well, but cuts off what it should round: a flat picture would get darker.
#[multiversion(targets = "simd")]
fn turned(picture: &RgbImage, degrees: f32, background: [u8; 3]) -> RgbImage {
    let (width, height) = picture.dimensions();
    let (sin, cos) = f64::from(degrees).to_radians().sin_cos();
    let [cx, cy] = [width, height].map(|side| (f64::from(side) - 1.0) / 2.0);
    let mut turned = RgbImage::new(width, height);
    let rows = turned.chunks_exact_mut((width as usize * 3).max(1));
    for (y, row) in (0..height).zip(rows) {
        let below = f64::from(y) - cy;
        for (x, pixel) in (0..width).zip(row.as_chunks_mut().0) {
            let right = f64::from(x) - cx;
            let from = [
                cos * right + sin * below + cx,
                cos * below - sin * right + cy,
            ];
            *pixel = sample(picture, from, background);
        }
    }
    turned
}

/// The colour at a position between pixels.
#[inline(always)]
fn sample(picture: &RgbImage, [x, y]: [f64; 2], background: [u8; 3]) -> [u8; 3] {
    let (left, top) = (x.floor(), y.floor());
    let (across, down) = ((x - left) as f32, (y - top) as f32);
    let corners = pixels(picture, left as i64, top as i64).unwrap_or_else(|| {
        [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(right, below)| {
            let x = u32::try_from(left as i64 + right).ok();
            let inside = x.zip(u32::try_from(top as i64 + below).ok());
            inside
                .and_then(|(x, y)| picture.get_pixel_checked(x, y))
                .map_or(background, |pixel| pixel.0)
        })
    });
    std::array::from_fn(|channel| {
        let [a, b, c, d] = corners.map(|corner| f32::from(corner[channel]));
        let upper = a + across * (b - a);
        let lower = c + across * (d - c);
        (upper + down * (lower - upper) + 0.5) as u8
    })
}

/// The pixel at a column and a row, the one to its right and the two below them; `None` where one is outside.
#[inline(always)]
fn pixels(picture: &RgbImage, left: i64, top: i64) -> Option<[[u8; 3]; 4]> {
    let width = picture.width() as usize;
    let (left, top) = (usize::try_from(left).ok()?, usize::try_from(top).ok()?);
    if left + 1 >= width || top + 1 >= picture.height() as usize {
        return None;
    }
    let (all, _) = picture.as_chunks::<3>();
    let (upper, lower) = (top * width + left, (top + 1) * width + left);
    let (&[a, b], &[c, d]) = (all[upper..].first_chunk()?, all[lower..].first_chunk()?);
    Some([a, b, c, d])
}

/// The picture mirrored.
pub fn flip(picture: &RgbImage, axis: Axis) -> RgbImage {
    match axis {
        Axis::Horizontal => flip_horizontal(picture),
        Axis::Vertical => flip_vertical(picture),
    }
}

/// The picture in grey by BT.601, `0.299 R + 0.587 G + 0.114 B`, in three equal channels; Pillow's `convert("L")` to
/// the level, in 16 fractional bits.
pub fn grayscale(picture: &RgbImage) -> RgbImage {
    let mut grey = picture.clone();
    for pixel in grey.as_chunks_mut::<3>().0 {
        let [r, g, b] = pixel.map(u32::from);
        let level = (19_595 * r + 38_470 * g + 7_471 * b + (1 << 15)) >> 16;
        *pixel = [level as u8; 3];
    }
    grey
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{assert_within, noise, picture, synthetic};
    use image::Rgb;

    const BACKGROUND: [u8; 3] = [10, 200, 90];

    #[test]
    fn quarter_turns_move_pixels() {
        let source = noise(7, 4);
        let turn = |degrees| rotate(&source, degrees, BACKGROUND);
        for (x, y, pixel) in source.enumerate_pixels() {
            for degrees in [90.0, 450.0, -270.0] {
                assert_eq!(turn(degrees)[(3 - y, x)], *pixel, "{degrees}");
            }
            for degrees in [180.0, -180.0, 540.0] {
                assert_eq!(turn(degrees)[(6 - x, 3 - y)], *pixel, "{degrees}");
            }
            for degrees in [270.0, -90.0] {
                assert_eq!(turn(degrees)[(y, 6 - x)], *pixel, "{degrees}");
            }
        }
        for degrees in [0.0, -0.0, 360.0, -720.0, f32::NAN, f32::NEG_INFINITY] {
            assert_eq!(turn(degrees), source, "{degrees}");
        }
    }

    #[test]
    fn other_angles_equal_opencv() {
        let ours = rotate(&synthetic(97, 61), 30.0, BACKGROUND);
        assert_within(&ours, &picture("turn_30.png"), 1, "30 degrees");
        let ours = rotate(&synthetic(97, 61), -330.0, BACKGROUND);
        assert_within(&ours, &picture("turn_30.png"), 1, "-330 degrees");
    }

    #[test]
    fn the_centre_is_that_of_the_pixels() {
        for side in [1, 2, 9, 10] {
            let source = noise(side, side);
            let almost = rotate(&source, 90.000_01, BACKGROUND);
            assert_within(&almost, &rotate90(&source), 1, "almost a quarter");
        }
    }

    #[test]
    fn a_picture_of_its_background_stays() {
        for (width, height) in [(1, 1), (1, 6), (40, 23), (0, 3)] {
            let flat = RgbImage::from_pixel(width, height, Rgb(BACKGROUND));
            assert_eq!(rotate(&flat, 33.3, BACKGROUND), flat);
        }
    }

    #[test]
    fn mirrors_swap_one_side() {
        let source = noise(5, 3);
        let (across, down) = (
            flip(&source, Axis::Horizontal),
            flip(&source, Axis::Vertical),
        );
        for (x, y, pixel) in source.enumerate_pixels() {
            assert_eq!(across[(4 - x, y)], *pixel);
            assert_eq!(down[(x, 2 - y)], *pixel);
        }
    }

    #[test]
    fn grey_equals_pillow() {
        assert_eq!(grayscale(&synthetic(97, 61)), picture("grey.png"));
    }
}
