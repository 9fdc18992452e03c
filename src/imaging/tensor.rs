//! Pixels to network input: normalised, planar, written straight into a batch row.

use image::RgbImage;
use serde::{Deserialize, Serialize};

use super::resize::{Filter, resize};

/// The order of the channel planes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelOrder {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
}

/// `y = (x − mean) · scale` for a sample x in 0..=255. Means and scales are in the output's channel order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalisation {
    /// The order of the planes.
    pub order: ChannelOrder,
    /// What is subtracted, in 0..=255 units.
    pub mean: [f32; 3],
    /// What the difference is multiplied by.
    pub scale: [f32; 3],
}

impl Normalisation {
    /// The samples as they are, 0..=255.
    pub fn identity(order: ChannelOrder) -> Self {
        Self {
            order,
            mean: [0.0; 3],
            scale: [1.0; 3],
        }
    }

    /// The RGB index of each output plane.
    fn planes(&self) -> [usize; 3] {
        match self.order {
            ChannelOrder::Rgb => [0, 1, 2],
            ChannelOrder::Bgr => [2, 1, 0],
        }
    }

    /// All 256 results of one output plane.
    fn table(&self, plane: usize) -> [f32; 256] {
        std::array::from_fn(|x| (x as f32 - self.mean[plane]) * self.scale[plane])
    }
}

/// Where a letterboxed picture lies in the network's input: its top left corner is the input's, and x and y
/// are scaled by nearly the same factor.
///
/// The scaled sides are rounded to whole pixels while points are mapped back by the one factor before rounding, as
/// the recorded answers of the reference are: at the far edge that is off by at most half a network pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Letterbox {
    /// Network pixels per picture pixel.
    pub scale: f32,
    /// Width of the scaled picture in network pixels; the rest is padding.
    pub width: u32,
    /// Height of the scaled picture in network pixels; the rest is padding.
    pub height: u32,
}

impl Letterbox {
    /// Fits `width` × `height` into `side_w` × `side_h`, up or down, keeping the aspect.
    pub fn fit((width, height): (u32, u32), (side_w, side_h): (u32, u32)) -> Self {
        let (w, h) = (f64::from(width.max(1)), f64::from(height.max(1)));
        let scale = (f64::from(side_w) / w).min(f64::from(side_h) / h);
        let scaled = |side: f64, most: u32| ((side * scale).round() as u32).clamp(1, most.max(1));
        Self {
            scale: scale as f32,
            width: scaled(w, side_w),
            height: scaled(h, side_h),
        }
    }

    /// A point in network pixels, in picture pixels.
    pub fn to_picture(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        [x / self.scale, y / self.scale]
    }
}

/// Scales `picture` to fit `side_w` × `side_h`, puts it at the top left on zero pixels, normalises, and writes the
/// three planes to `row` (CHW; `3 · side_w · side_h` values). The padding is a normalised zero pixel.
///
/// The filter is [`Filter::BilinearPoint`], OpenCV's, which the detectors' recorded answers come from.
/// Antialiasing moves YuNet's boxes by up to 2.7 px on the reference pictures and gains little: of 81 faces reduced
/// to a 128-pixel input it finds 53 to 55 where this finds 52, and as many as this at 192 and 256.
///
/// # Panics
/// When `row` has another length.
pub fn letterbox_into(
    picture: &RgbImage,
    (side_w, side_h): (u32, u32),
    normalisation: &Normalisation,
    row: &mut [f32],
) -> Letterbox {
    let fit = Letterbox::fit(picture.dimensions(), (side_w, side_h));
    let scaled = resize(picture, fit.width, fit.height, Filter::BilinearPoint);
    write_planes(&scaled, (side_w, side_h), normalisation, row);
    fit
}

/// Normalises a picture that already has the network's size and writes its three planes to `row` (CHW).
///
/// # Panics
/// When `row` does not hold three values a pixel.
pub fn fill_row(picture: &RgbImage, normalisation: &Normalisation, row: &mut [f32]) {
    write_planes(picture, picture.dimensions(), normalisation, row);
}

fn write_planes(
    picture: &RgbImage,
    (side_w, side_h): (u32, u32),
    normalisation: &Normalisation,
    row: &mut [f32],
) {
    let (side_w, side_h) = (side_w as usize, side_h as usize);
    assert_eq!(
        row.len(),
        3 * side_w * side_h,
        "a row of 3×{side_h}×{side_w}"
    );
    if row.is_empty() {
        return;
    }
    let (width, samples) = (picture.width() as usize, picture.as_raw());
    let planes = row.chunks_exact_mut(side_w * side_h);
    for (plane, (target, channel)) in planes.zip(normalisation.planes()).enumerate() {
        let table = normalisation.table(plane);
        for (y, line) in target.chunks_exact_mut(side_w).enumerate() {
            let pixels = samples.get(y * width * 3..(y + 1) * width * 3);
            let pixels = pixels.unwrap_or_default();
            let (inside, padding) = line.split_at_mut(pixels.len() / 3);
            for (out, pixel) in inside.iter_mut().zip(pixels.chunks_exact(3)) {
                *out = table[usize::from(pixel[channel])];
            }
            padding.fill(table[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imaging::synthetic::synthetic;
    use image::Rgb;

    #[test]
    fn planes_are_ordered_normalised_and_padded() {
        let picture = RgbImage::from_pixel(2, 1, Rgb([10, 20, 30]));
        let normalisation = Normalisation {
            order: ChannelOrder::Bgr,
            mean: [1.0, 2.0, 3.0],
            scale: [0.5, 1.0, 2.0],
        };
        let mut row = vec![f32::NAN; 3 * 2 * 4];
        let fit = letterbox_into(&picture, (4, 2), &normalisation, &mut row);
        assert_eq!((fit.width, fit.height, fit.scale), (4, 2, 2.0));
        assert_eq!(row[..8], [14.5; 8]);
        assert_eq!(row[8..16], [18.0; 8]);
        assert_eq!(row[16..], [14.0; 8]);

        let mut row = vec![f32::NAN; 3 * 3 * 4];
        let fit = letterbox_into(&picture, (4, 3), &normalisation, &mut row);
        assert_eq!((fit.width, fit.height), (4, 2));
        assert_eq!(row[..8], [14.5; 8]);
        assert_eq!(row[8..12], [-0.5; 4]);
        assert_eq!(row[20..24], [-2.0; 4]);
        assert_eq!(row[32..], [-6.0; 4]);
    }

    #[test]
    fn a_narrow_picture_is_padded_at_the_right() {
        let picture = RgbImage::from_pixel(1, 2, Rgb([7, 8, 9]));
        let mut row = vec![f32::NAN; 3 * 4 * 4];
        letterbox_into(
            &picture,
            (4, 4),
            &Normalisation::identity(ChannelOrder::Rgb),
            &mut row,
        );
        assert_eq!(row[..8], [7.0, 7.0, 0.0, 0.0, 7.0, 7.0, 0.0, 0.0]);
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
            let [x, y] = fit.to_picture([fit.width as f32, fit.height as f32]);
            let tolerance = 0.5 / fit.scale + 1e-2;
            assert!((x - size.0 as f32).abs() <= tolerance, "{size:?} {x}");
            assert!((y - size.1 as f32).abs() <= tolerance, "{size:?} {y}");
        }
    }

    #[test]
    fn fill_row_is_the_picture() {
        let picture = synthetic(5, 3);
        let mut row = vec![0.0; 45];
        fill_row(
            &picture,
            &Normalisation::identity(ChannelOrder::Rgb),
            &mut row,
        );
        for (x, y, pixel) in picture.enumerate_pixels() {
            for c in 0..3 {
                let at = c * 15 + (y * 5 + x) as usize;
                assert_eq!(row[at], f32::from(pixel[c]));
            }
        }
    }

    #[test]
    #[should_panic(expected = "a row of 3×4×4")]
    fn a_row_of_another_length_is_refused() {
        let identity = Normalisation::identity(ChannelOrder::Rgb);
        letterbox_into(&synthetic(4, 4), (4, 4), &identity, &mut [0.0; 47]);
    }
}
