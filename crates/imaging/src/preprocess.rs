//! Converts images to network input. A definition names the library whose resize is matched, how the image is fitted,
//! and the layout of the values.
//!
//! Devices that preprocess read [`Preprocess::placement`] and [`Preprocess::normalization`]. The reference values of
//! the other libraries are in `tests/fixtures`. Here a row is one entry of the batch, and a line is a line of pixels.

mod canvas;
mod lines;
mod placement;

use image::RgbImage;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::tensor::{ChannelOrder, Normalization, preprocess_into};
use canvas::Canvas;
pub use placement::Placement;

/// Values per pixel.
const RGB: usize = 3;

/// The longest side of a preprocessed image, in pixels.
pub const MAX_SIDE: u32 = 8192;

/// The mean of ImageNet's training images, RGB in 0..=1, as torchvision publishes it.
const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];

/// The standard deviation of ImageNet's training images, RGB in 0..=1, as torchvision publishes it.
const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// The library whose resize is matched; recorded with every output, because the outputs of a model depend on it.
///
/// All profiles are bilinear with half-pixel centers and take 8-bit images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// torchvision with antialias: the triangle filter, widened when shrinking, rounded once to the nearest level.
    /// Within one level.
    #[default]
    Torchvision,
    /// `jax.image.resize` with antialias: the same without rounding. Within a thousandth of a level.
    Jax,
    /// Pillow's `BILINEAR`: the same, rounded after each of the two passes. Within one level.
    Pil,
    /// OpenCV's `INTER_LINEAR`: the four nearest pixels at any scale, in fixed point. Bit for bit.
    Opencv,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 4] = [Self::Torchvision, Self::Jax, Self::Pil, Self::Opencv];

    /// Returns the name in settings and vector spaces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Torchvision => "torchvision",
            Self::Jax => "jax",
            Self::Pil => "pil",
            Self::Opencv => "opencv",
        }
    }
}

/// How an image is fitted to the configured size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Scaled to exactly the configured size; the aspect ratio may change.
    #[default]
    Stretch,
    /// Scaled to fit within the configured size, centered and padded.
    Letterbox,
    /// Scaled to cover the configured size and cropped to its center.
    CenterCrop,
    /// Scaled so that the shorter side has the length of the shorter configured side; the aspect ratio is kept.
    ShortSide,
}

impl Mode {
    /// Returns the name in settings and vector spaces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stretch => "stretch",
            Self::Letterbox => "letterbox",
            Self::CenterCrop => "center_crop",
            Self::ShortSide => "short_side",
        }
    }
}

/// The order of the values. The batch (N) is the outermost axis in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Layout {
    /// One plane per channel.
    #[default]
    Nchw,
    /// The channels of a pixel side by side.
    Nhwc,
}

impl Layout {
    /// Returns whether the layout has one plane per channel.
    pub fn is_nchw(&self) -> bool {
        *self == Self::Nchw
    }
}

/// How images become rows of f32 values, one row per image.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocess {
    /// The configured height in pixels, at least 1.
    pub height: u32,
    /// The configured width in pixels, at least 1.
    pub width: u32,
    /// The library whose resize is matched.
    pub profile: Profile,
    /// How the image is fitted.
    pub mode: Mode,
    /// The order of the values.
    pub layout: Layout,
    /// The padding color of a letterbox: RGB in 0..=255, before normalization.
    pub pad: [u8; 3],
    /// The mean that is subtracted from samples in 0..=1: RGB.
    pub mean: [f32; 3],
    /// The standard deviation that the difference is divided by: RGB, not 0.
    pub std: [f32; 3],
}

impl Default for Preprocess {
    /// Returns 224 × 224 pixels, stretched, with torchvision's resize and ImageNet's mean and standard deviation.
    fn default() -> Self {
        Self {
            height: 224,
            width: 224,
            profile: Profile::default(),
            mode: Mode::default(),
            layout: Layout::default(),
            pad: [0; 3],
            mean: IMAGENET_MEAN,
            std: IMAGENET_STD,
        }
    }
}

impl Preprocess {
    /// Returns the (width, height) of the output for an image of `size`, in pixels: the configured size, except for
    /// [`Mode::ShortSide`]. There the longer side follows the aspect ratio, rounded to the nearest pixel, halves up. It
    /// has no upper bound, so compare it with a limit before allocating memory.
    pub fn output_size(&self, size: (u32, u32)) -> (u32, u32) {
        self.placement(size).output
    }

    /// Returns the number of values of the row for an image of `size`: three per pixel.
    pub fn row_len(&self, size: (u32, u32)) -> usize {
        let (width, height) = self.output_size(size);
        RGB * width as usize * height as usize
    }

    /// Returns the placement of an image of `size` in the output. A side of 0 counts as 1.
    pub fn placement(&self, size: (u32, u32)) -> Placement {
        Placement::new(self.mode, size, (self.width, self.height))
    }

    /// Returns the normalization of levels in 0..=255: equal to `(level / 255 − mean) / std`.
    pub fn normalization(&self) -> Normalization {
        Normalization {
            order: ChannelOrder::Rgb,
            mean: self.mean.map(|mean| (f64::from(mean) * 255.0) as f32),
            scale: self.std.map(|std| (1.0 / (f64::from(std) * 255.0)) as f32),
        }
    }

    /// Writes `(resize(image) / 255 − mean) / std` to `row`, which has [`Preprocess::row_len`] values. An image without
    /// pixels makes the output black.
    ///
    /// # Panics
    /// Panics if `row` has another length.
    pub fn write(&self, image: &RgbImage, row: &mut [f32]) {
        let placement = self.placement(image.dimensions());
        let normalization = self.normalization();
        let options = (self.profile, self.mode, self.layout);
        if options == (Profile::Torchvision, Mode::Stretch, Layout::Nchw) {
            // The default, without a line of floats in between.
            return preprocess_into(image, placement.output, &normalization, row);
        }
        let mut canvas = Canvas::new(row, placement.output, self.layout, &normalization);
        if image.is_empty() {
            return canvas.fill([0; RGB]);
        }
        if placement.pads() {
            canvas.fill(self.pad);
        }
        let view = placement.view(image.dimensions());
        let width = view.columns.range.len();
        let (left, mut y) = placement.corner();
        lines::for_each(self.profile, image, &view, |line| {
            canvas.write(&line[..width], left, y);
            y += 1;
        });
    }
}

#[cfg(test)]
mod tests;
