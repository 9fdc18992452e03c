//! Pictures to network input by named definitions: which library's resize is matched, how the picture is fitted, and
//! in which order the values lie. A device that does the same is given [`Preprocess::placement`] and
//! [`Preprocess::normalisation`]. The values that other libraries give are in `tests/fixtures`.

mod canvas;
mod lines;
mod placement;

use image::RgbImage;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::tensor::{ChannelOrder, Normalisation, preprocess_into};
use canvas::Canvas;
pub use placement::Placement;

/// Values of a pixel in a row.
const RGB: usize = 3;

/// Which library's resize is matched; recorded with every output. Models answer differently to another one. All are
/// bilinear with half-pixel centres, on 8-bit pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// torchvision with antialias: the triangle widened when shrinking, rounded once to whole levels. Within one level.
    #[default]
    Torchvision,
    /// `jax.image.resize` with antialias: the same without rounding. Within a thousandth of a level.
    Jax,
    /// Pillow's `BILINEAR`: the same, rounded after the columns and after the rows. Within one level.
    Pil,
    /// OpenCV's `INTER_LINEAR`: the four nearest pixels at any scale, in fixed point. To the last bit.
    Opencv,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Torchvision, Self::Jax, Self::Pil, Self::Opencv];

    /// The name in settings and contracts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Torchvision => "torchvision",
            Self::Jax => "jax",
            Self::Pil => "pil",
            Self::Opencv => "opencv",
        }
    }
}

/// How a picture is fitted to the set size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// To exactly the set size, without regard to the aspect.
    #[default]
    Stretch,
    /// Scaled to fit within the set size, in its middle, with padding around it.
    Letterbox,
    /// Scaled to cover the set size, of which the middle is kept.
    CenterCrop,
    /// Scaled so that the shorter side is the smaller of the set sides; the other follows the aspect.
    ShortSide,
}

impl Mode {
    /// The name in settings and contracts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stretch => "stretch",
            Self::Letterbox => "letterbox",
            Self::CenterCrop => "center_crop",
            Self::ShortSide => "short_side",
        }
    }
}

/// In which order a row's values lie. N, the pictures of a batch, is outermost in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Layout {
    /// A plane for each channel, each row by row.
    #[default]
    Nchw,
    /// Pixel by pixel, row by row.
    Nhwc,
}

impl Layout {
    /// Whether the channels come first.
    pub fn is_nchw(&self) -> bool {
        *self == Self::Nchw
    }
}

/// How pictures become rows of f32 values.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocess {
    /// The set height in pixels, at least 1.
    pub height: u32,
    /// The set width in pixels, at least 1.
    pub width: u32,
    /// Which library's resize is matched.
    pub profile: Profile,
    /// How the picture is fitted.
    pub mode: Mode,
    /// The order of the values.
    pub layout: Layout,
    /// What a letterbox is padded with: RGB in 0..=255, before normalisation.
    pub pad: [u8; 3],
    /// What is subtracted from samples in 0..=1: RGB.
    pub mean: [f32; 3],
    /// What the difference is divided by, not 0: RGB.
    pub std: [f32; 3],
}

/// The longest side of a preprocessed image, in pixels.
pub const LONGEST_SIDE: u32 = 8192;

impl Default for Preprocess {
    /// ImageNet's: 224 × 224, stretched as by torchvision.
    fn default() -> Self {
        Self {
            height: 224,
            width: 224,
            profile: Profile::default(),
            mode: Mode::default(),
            layout: Layout::default(),
            pad: [0; 3],
            mean: [0.485, 0.456, 0.406],
            std: [0.229, 0.224, 0.225],
        }
    }
}

impl Preprocess {
    /// Size (width, height) of the row that a picture of `size` becomes, both in pixels: the set size, except for
    /// [`Mode::ShortSide`]. There the longer side is rounded to the nearest pixel, halves up, and is as long as the
    /// picture's aspect makes it: before making room for it, compare it with a limit.
    pub fn output_size(&self, size: (u32, u32)) -> (u32, u32) {
        self.placement(size).output
    }

    /// Values of the row that a picture of `size` becomes: three a pixel.
    pub fn row_len(&self, size: (u32, u32)) -> usize {
        let (width, height) = self.output_size(size);
        RGB * width as usize * height as usize
    }

    /// Where a picture of `size` lies in the output. A side of 0 counts as 1.
    pub fn placement(&self, size: (u32, u32)) -> Placement {
        Placement::new(self.mode, size, (self.width, self.height))
    }

    /// What makes a value of a level in 0..=255: the same as `(level / 255 − mean) / std`.
    pub fn normalisation(&self) -> Normalisation {
        Normalisation {
            order: ChannelOrder::Rgb,
            mean: self.mean.map(|mean| (f64::from(mean) * 255.0) as f32),
            scale: self.std.map(|std| (1.0 / (f64::from(std) * 255.0)) as f32),
        }
    }

    /// Writes `(resize(picture) / 255 − mean) / std` to `row`, which has [`Preprocess::row_len`] values. A picture
    /// without pixels counts as black, in all of the row.
    ///
    /// # Panics
    /// When `row` has another length.
    pub fn write(&self, picture: &RgbImage, row: &mut [f32]) {
        let place = self.placement(picture.dimensions());
        let normalisation = self.normalisation();
        let plain = (self.profile, self.mode, self.layout);
        if plain == (Profile::Torchvision, Mode::Stretch, Layout::Nchw) {
            // The usual way, and the one that the benchmarks measure.
            return preprocess_into(picture, place.output, &normalisation, row);
        }
        let mut canvas = Canvas::new(row, place.output, self.layout, &normalisation);
        if picture.is_empty() {
            return canvas.fill([0; RGB]);
        }
        if place.pads() {
            canvas.fill(self.pad);
        }
        let view = place.view(picture.dimensions());
        let width = view.columns.kept.len();
        let (left, mut y) = place.corner();
        lines::each(self.profile, picture, &view, |line| {
            canvas.put(&line[..width], left, y);
            y += 1;
        });
    }
}

#[cfg(test)]
mod tests;
