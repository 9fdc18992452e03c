//! Converts images to network input: resizes and normalizes them, and writes channel planes into a row of the batch.
//!
//! Here a row is one entry of the batch, and a line is a line of pixels.

mod planes;

use std::num::NonZeroU32;

use image::RgbImage;
use serde::{Deserialize, Serialize};

use super::resize::{Pixel, triangle, two_tap, view::View};
use planes::{Planes, expand};

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
pub struct Normalization {
    /// The order of the planes.
    pub order: ChannelOrder,
    /// The mean that is subtracted, in levels of 0..=255.
    pub mean: [f32; 3],
    /// The factor of the difference.
    pub scale: [f32; 3],
}

impl Normalization {
    /// Leaves samples as they are, 0..=255.
    pub fn identity(order: ChannelOrder) -> Self {
        Self {
            order,
            mean: [0.0; 3],
            scale: [1.0; 3],
        }
    }

    /// Returns the RGB index of each output plane.
    fn planes(&self) -> [usize; 3] {
        match self.order {
            ChannelOrder::Rgb => [0, 1, 2],
            ChannelOrder::Bgr => [2, 1, 0],
        }
    }

    /// Returns the value of a sample in one output plane.
    fn value(&self, sample: u8, plane: usize) -> f32 {
        (f32::from(sample) - self.mean[plane]) * self.scale[plane]
    }
}

/// The position of a letterboxed image in the network's input. The top left corners coincide.
///
/// The scaled sides are rounded to integers, but points are mapped back by the scale before rounding, as the reference
/// implementation does. At the far edge that is off by at most half a network pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Letterbox {
    /// Network pixels per image pixel, before the sides are rounded.
    pub scale: f32,
    /// Width of the scaled image in network pixels; the rest is padding.
    pub width: u32,
    /// Height of the scaled image in network pixels; the rest is padding.
    pub height: u32,
    /// Width and height of the network's input.
    pub input: (u32, u32),
}

impl Letterbox {
    /// Fits an image of `width` × `height` into `input`, enlarging or shrinking, with the aspect ratio kept.
    pub fn fit(image: (u32, u32), input: (u32, u32)) -> Self {
        Self::at_most(image, input, f64::INFINITY)
    }

    /// Fits an image like [`fit`](Self::fit), but does not enlarge it.
    pub fn shrink(image: (u32, u32), input: (u32, u32)) -> Self {
        Self::at_most(image, input, 1.0)
    }

    fn at_most((width, height): (u32, u32), input: (u32, u32), largest_scale: f64) -> Self {
        let (side_w, side_h) = input;
        let (w, h) = (f64::from(width.max(1)), f64::from(height.max(1)));
        let scale = (f64::from(side_w) / w)
            .min(f64::from(side_h) / h)
            .min(largest_scale);
        let scaled = |side: f64, most: u32| ((side * scale).round() as u32).clamp(1, most.max(1));
        Self {
            scale: scale as f32,
            width: scaled(w, side_w),
            height: scaled(h, side_h),
            input,
        }
    }

    /// Returns the same letterbox with as little padding as an input has whose sides are multiples of `multiple`.
    pub fn with_minimal_padding(self, multiple: NonZeroU32) -> Self {
        let minimal = |scaled: u32, side: u32| scaled.next_multiple_of(multiple.get()).min(side);
        Self {
            input: (
                minimal(self.width, self.input.0),
                minimal(self.height, self.input.1),
            ),
            ..self
        }
    }

    /// Returns the same letterbox in the smallest square input whose side is a multiple of `multiple`.
    pub fn with_square_padding(self, multiple: NonZeroU32) -> Self {
        let minimal = self.with_minimal_padding(multiple).input;
        let side = minimal.0.max(minimal.1);
        Self {
            input: (side, side),
            ..self
        }
    }

    /// Returns the number of values of the network's input in three planes.
    pub fn row_len(&self) -> usize {
        3 * self.input.0 as usize * self.input.1 as usize
    }

    /// Converts a point from network pixels to image pixels.
    pub fn to_image(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        [x / self.scale, y / self.scale]
    }
}

/// Letterboxes `image`: scales it as `letterbox` says, puts it at the top left, pads with black, normalizes, and writes
/// the three planes to `row` (CHW, [`Letterbox::row_len`] values).
///
/// The filter is [`Filter::BilinearTwoTap`](super::resize::Filter::BilinearTwoTap), OpenCV's, as in the reference
/// answers of the detectors. Antialiasing moves YuNet's boxes by up to 2.7 px on the reference images and gains little:
/// of 81 faces reduced to a 128-pixel input it finds 53 to 55 instead of 52, and the same number at 192 and 256.
///
/// # Panics
/// Panics if `row` has another length.
pub fn letterbox_into(
    image: &RgbImage,
    letterbox: &Letterbox,
    normalization: &Normalization,
    row: &mut [f32],
) {
    let mut planes = Planes::new(row, letterbox.input, normalization);
    if !image.is_empty() {
        let view = View::full(image.dimensions(), (letterbox.width, letterbox.height));
        let mut lines = two_tap::row_pairs(image, &view);
        while let Some(pair) = lines.next() {
            planes.push_blended(&pair, letterbox.width as usize);
        }
    }
    planes.pad();
}

/// Stretches `image` to `width` × `height`, normalizes, and writes the three planes to `row` (CHW, `3 · width · height`
/// values). An image without pixels counts as black.
///
/// The filter is [`Filter::Bilinear`](super::resize::Filter::Bilinear), antialiased when shrinking, and its samples are
/// rounded to the nearest level. The result is within one level of torchvision's for 8-bit images.
///
/// # Panics
/// Panics if `row` has another length.
pub fn preprocess_into(
    image: &RgbImage,
    (width, height): (u32, u32),
    normalization: &Normalization,
    row: &mut [f32],
) {
    let mut planes = Planes::new(row, (width, height), normalization);
    if !image.is_empty() {
        let view = View::full(image.dimensions(), (width, height));
        let mut lines = triangle::rounded(image, &view);
        while let Some(line) = lines.next() {
            planes.push(&line[..width as usize]);
        }
    }
    planes.pad();
}

/// Normalizes an image of the network's size and writes its three planes to `row` (CHW).
///
/// # Panics
/// Panics if `row` does not hold three values per pixel.
pub fn fill_row(image: &RgbImage, normalization: &Normalization, row: &mut [f32]) {
    let mut planes = Planes::new(row, image.dimensions(), normalization);
    let mut line = vec![Pixel::default(); image.width() as usize];
    for source in image
        .as_raw()
        .chunks_exact((image.width() as usize * 3).max(1))
    {
        expand(source, &mut line);
        planes.push(&line);
    }
}

#[cfg(test)]
mod tests;
