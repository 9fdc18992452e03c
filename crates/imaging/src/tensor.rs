//! Pixels to network input: normalised, planar, written straight into a batch row.

mod planes;

use image::RgbImage;
use serde::{Deserialize, Serialize};

use super::resize::{Pixel, point, triangle, view::View};
use planes::{Planes, widen};

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

    /// What a sample becomes in one output plane.
    fn of(&self, sample: u8, plane: usize) -> f32 {
        (f32::from(sample) - self.mean[plane]) * self.scale[plane]
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
/// The filter is [`Filter::BilinearPoint`](super::resize::Filter::BilinearPoint), OpenCV's, which the detectors' recorded answers come from.
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
    let mut planes = Planes::new(row, (side_w, side_h), normalisation);
    if !picture.is_empty() {
        let view = View::whole(picture.dimensions(), (fit.width, fit.height));
        let mut lines = point::lines(picture, &view);
        while let Some(line) = lines.next() {
            planes.mix(&line, fit.width as usize);
        }
    }
    planes.pad();
    fit
}

/// Stretches `picture` to `width` × `height`, normalises, and writes the three planes to `row` (CHW;
/// `3 · width · height` values). A picture without pixels counts as black.
///
/// The filter is [`Filter::Bilinear`](super::resize::Filter::Bilinear), antialiased when shrinking, and its samples
/// are rounded to whole levels: what torchvision makes of 8-bit pictures, to within one level.
///
/// # Panics
/// When `row` has another length.
pub fn preprocess_into(
    picture: &RgbImage,
    (width, height): (u32, u32),
    normalisation: &Normalisation,
    row: &mut [f32],
) {
    let mut planes = Planes::new(row, (width, height), normalisation);
    if !picture.is_empty() {
        let view = View::whole(picture.dimensions(), (width, height));
        let mut lines = triangle::lines(picture, &view);
        while let Some(line) = lines.next() {
            planes.push(&line[..width as usize]);
        }
    }
    planes.pad();
}

/// Normalises a picture that already has the network's size and writes its three planes to `row` (CHW).
///
/// # Panics
/// When `row` does not hold three values a pixel.
pub fn fill_row(picture: &RgbImage, normalisation: &Normalisation, row: &mut [f32]) {
    let mut planes = Planes::new(row, picture.dimensions(), normalisation);
    let mut line = vec![Pixel::default(); picture.width() as usize];
    for source in picture
        .as_raw()
        .chunks_exact((picture.width() as usize * 3).max(1))
    {
        widen(source, &mut line);
        planes.push(&line);
    }
}

#[cfg(test)]
mod tests;
