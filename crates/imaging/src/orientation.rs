//! Rotation and mirroring of images.

use image::RgbImage;
use multiversion::multiversion;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    checkpoint::{passed, strips},
    crop::copy,
};

const CHANNELS: usize = 3;

/// The rows of a turned image that are written at a time. They come from as many columns, whose samples share cache
/// lines.
const TURNED_ROWS: usize = 16;

/// The direction in which an image is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Swaps left and right.
    Horizontal,
    /// Swaps top and bottom.
    Vertical,
}

/// Rotates an image clockwise by `degrees`.
///
/// Multiples of 90 degrees move pixels unchanged; 90 and 270 degrees swap width and height. Any other angle keeps the
/// size: the image is rotated about its center, sampled bilinearly and surrounded by `background`, as by OpenCV's
/// `warpAffine(INTER_LINEAR, BORDER_CONSTANT)`. A non-finite angle leaves the image unchanged.
pub fn rotate(image: &RgbImage, degrees: f32, background: [u8; 3]) -> RgbImage {
    let degrees = degrees % 360.0;
    if degrees.is_nan() {
        return copy(image);
    }
    if degrees % 90.0 != 0.0 {
        return rotate_bilinear(image, degrees, background);
    }
    match (degrees / 90.0) as i32 {
        1 | -3 => quarter_turn(image, true),
        2 | -2 => mirrored(image, true, true),
        3 | -1 => quarter_turn(image, false),
        _ => copy(image),
    }
}

/// Turns an image by 90 degrees.
pub(crate) fn quarter_turn(image: &RgbImage, is_clockwise: bool) -> RgbImage {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let source = image.as_chunks::<CHANNELS>().0;
    let mut turned = RgbImage::new(image.height(), image.width());
    let strips = turned.as_chunks_mut::<CHANNELS>().0;
    for (strip, first) in strips
        .chunks_mut((TURNED_ROWS * height).max(1))
        .zip((0..).step_by(TURNED_ROWS))
    {
        for x in 0..height {
            let row = if is_clockwise { height - 1 - x } else { x };
            let row = &source[row * width..(row + 1) * width];
            for (y, pixel) in (first..width).zip(strip[x..].iter_mut().step_by(height)) {
                *pixel = row[if is_clockwise { y } else { width - 1 - y }];
            }
        }
        passed(CHANNELS * strip.len());
    }
    turned
}

/// Mirrors an image along one or both axes.
fn mirrored(image: &RgbImage, across: bool, down: bool) -> RgbImage {
    let stride = image.width() as usize * CHANNELS;
    let mut samples = Vec::with_capacity(image.as_raw().len());
    for y in strips(image.height(), stride).flatten() {
        let y = if down { image.height() - 1 - y } else { y };
        let row = &image.as_raw()[y as usize * stride..][..stride];
        if across {
            let pixels = row.as_chunks::<CHANNELS>().0.iter().rev();
            samples.extend(pixels.flatten());
        } else {
            samples.extend_from_slice(row);
        }
    }
    RgbImage::from_raw(image.width(), image.height(), samples).unwrap_or_default()
}

/// Rotates clockwise about the center, which is the midpoint of the outermost pixel centers.
///
/// The version of `imageproc` truncates instead of rounding, so that a flat image gets darker.
#[multiversion(targets = "simd")]
fn rotate_bilinear(image: &RgbImage, degrees: f32, background: [u8; 3]) -> RgbImage {
    let (width, height) = image.dimensions();
    let (sin, cos) = f64::from(degrees).to_radians().sin_cos();
    let [cx, cy] = [width, height].map(|side| (f64::from(side) - 1.0) / 2.0);
    let mut rotated = RgbImage::new(width, height);
    let rows = rotated.chunks_exact_mut((width as usize * 3).max(1));
    for (y, row) in (0..height).zip(rows) {
        let below = f64::from(y) - cy;
        for (x, pixel) in (0..width).zip(row.as_chunks_mut().0) {
            let right = f64::from(x) - cx;
            let from = [
                cos * right + sin * below + cx,
                cos * below - sin * right + cy,
            ];
            *pixel = sample(image, from, background);
        }
        passed(16 * row.len());
    }
    rotated
}

/// Returns the color at a position between pixels.
#[inline(always)]
fn sample(image: &RgbImage, [x, y]: [f64; 2], background: [u8; 3]) -> [u8; 3] {
    let (left, top) = (x.floor(), y.floor());
    let (across, down) = ((x - left) as f32, (y - top) as f32);
    let (at_x, at_y) = (left as i64, top as i64);
    let corners =
        pixels(image, at_x, at_y).unwrap_or_else(|| around(image, at_x, at_y, background));
    std::array::from_fn(|channel| {
        let [a, b, c, d] = corners.map(|corner| f32::from(corner[channel]));
        let upper = a + across * (b - a);
        let lower = c + across * (d - c);
        (upper + down * (lower - upper) + 0.5) as u8
    })
}

/// Returns the pixel at a column and a row, the pixel to its right and the two below, or `None` if one of them is
/// outside the image.
#[inline(always)]
fn pixels(image: &RgbImage, left: i64, top: i64) -> Option<[[u8; 3]; 4]> {
    let width = image.width() as usize;
    let (left, top) = (usize::try_from(left).ok()?, usize::try_from(top).ok()?);
    if left + 1 >= width || top + 1 >= image.height() as usize {
        return None;
    }
    let (all, _) = image.as_chunks::<3>();
    let (upper, lower) = (top * width + left, (top + 1) * width + left);
    let (&[a, b], &[c, d]) = (all[upper..].first_chunk()?, all[lower..].first_chunk()?);
    Some([a, b, c, d])
}

/// Returns the four pixels like [`pixels`], with `background` for those outside the image.
#[inline]
pub(crate) fn around(image: &RgbImage, left: i64, top: i64, background: [u8; 3]) -> [[u8; 3]; 4] {
    [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(right, below)| {
        let x = u32::try_from(left + right).ok();
        let inside = x.zip(u32::try_from(top + below).ok());
        inside
            .and_then(|(x, y)| image.get_pixel_checked(x, y))
            .map_or(background, |pixel| pixel.0)
    })
}

/// Mirrors an image.
pub fn flip(image: &RgbImage, axis: Axis) -> RgbImage {
    match axis {
        Axis::Horizontal => mirrored(image, true, false),
        Axis::Vertical => mirrored(image, false, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{assert_within, fixture_image, noise, synthetic};
    use image::Rgb;
    use image::imageops::rotate90;

    const BACKGROUND: [u8; 3] = [10, 200, 90];

    #[test]
    fn multiples_of_90_degrees_move_pixels() {
        let source = noise(7, 4);
        let rotated = |degrees| rotate(&source, degrees, BACKGROUND);
        for (x, y, pixel) in source.enumerate_pixels() {
            for degrees in [90.0, 450.0, -270.0] {
                assert_eq!(rotated(degrees)[(3 - y, x)], *pixel, "{degrees}");
            }
            for degrees in [180.0, -180.0, 540.0] {
                assert_eq!(rotated(degrees)[(6 - x, 3 - y)], *pixel, "{degrees}");
            }
            for degrees in [270.0, -90.0] {
                assert_eq!(rotated(degrees)[(y, 6 - x)], *pixel, "{degrees}");
            }
        }
        for degrees in [0.0, -0.0, 360.0, -720.0, f32::NAN, f32::NEG_INFINITY] {
            assert_eq!(rotated(degrees), source, "{degrees}");
        }
    }

    #[test]
    fn other_angles_equal_opencv() {
        for degrees in [30.0, -330.0] {
            let ours = rotate(&synthetic(97, 61), degrees, BACKGROUND);
            assert_within(&ours, &fixture_image("turn_30.png"), 1, "30 degrees");
        }
    }

    #[test]
    fn the_center_is_the_midpoint_of_the_pixel_centers() {
        for side in [1, 2, 9, 10] {
            let source = noise(side, side);
            let almost = rotate(&source, 90.000_01, BACKGROUND);
            assert_within(&almost, &rotate90(&source), 1, "almost 90 degrees");
        }
    }

    #[test]
    fn an_image_of_the_background_color_does_not_change() {
        for (width, height) in [(1, 1), (1, 6), (40, 23), (0, 3)] {
            let flat = RgbImage::from_pixel(width, height, Rgb(BACKGROUND));
            assert_eq!(rotate(&flat, 33.3, BACKGROUND), flat);
        }
    }

    #[test]
    fn flipping_mirrors_one_axis() {
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
}
