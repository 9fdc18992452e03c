//! The pixels that are worked on: real pictures at a size, and the faces in them.

use std::{io::Cursor, sync::Arc};

use anyhow::Context;
use bytes::Bytes;
use clap::ValueEnum;
use image::{ExtendedColorType, ImageEncoder, RgbImage, codecs::bmp::BmpEncoder};
use serde::Serialize;

use crate::pipeline::scan::{ContentHash, content_hash};
use facescan_imaging::resize::{Filter, resize};

/// How large the pictures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// A long side of 320 pixels.
    Small,
    /// A long side of 1024 pixels.
    Medium,
    /// A long side of 2560 pixels.
    Large,
}

impl Size {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }

    /// The long side in pixels.
    pub fn long_side(self) -> u32 {
        match self {
            Self::Small => 320,
            Self::Medium => 1024,
            Self::Large => 2560,
        }
    }

    /// The picture with this long side, smaller or larger than it was.
    pub fn fit(self, picture: &RgbImage) -> RgbImage {
        let longest = f64::from(picture.width().max(picture.height()));
        let scale = f64::from(self.long_side()) / longest.max(1.0);
        let scaled = |side: u32| (f64::from(side) * scale).round() as u32;
        let (width, height) = (scaled(picture.width()), scaled(picture.height()));
        resize(picture, width, height, Filter::Bilinear)
    }
}

/// What there is to work on at one size.
pub struct Material {
    /// The size.
    pub size: Size,
    /// The pictures.
    pub pictures: Vec<Item>,
    /// The faces in them, aligned.
    pub crops: Vec<Item>,
}

impl Material {
    /// Nothing yet.
    pub fn new(size: Size) -> Self {
        Self {
            size,
            pictures: Vec::new(),
            crops: Vec::new(),
        }
    }
}

/// Some pixels: as they are, and as an uncompressed file for what takes files only.
pub struct Item {
    /// Upright 8-bit RGB.
    pub pixels: Arc<RgbImage>,
    /// The same as a BMP, which takes a copy to decode and not more.
    pub file: Bytes,
    /// The sha256 of the file.
    pub hash: ContentHash,
}

impl Item {
    /// Both forms of `pixels`.
    ///
    /// # Errors
    /// When the picture is too large for a BMP.
    pub fn new(pixels: RgbImage) -> anyhow::Result<Self> {
        let mut file = Cursor::new(Vec::new());
        let (width, height) = pixels.dimensions();
        BmpEncoder::new(&mut file)
            .write_image(&pixels, width, height, ExtendedColorType::Rgb8)
            .context("writing a BMP")?;
        let file = Bytes::from(file.into_inner());
        Ok(Self {
            hash: content_hash(&file),
            pixels: Arc::new(pixels),
            file,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use facescan_imaging::{
        decode::{DecodeOptions, decode},
        limits::Limits,
        synthetic::synthetic,
    };

    #[test]
    fn pictures_keep_their_shape_at_every_size() {
        let picture = synthetic(90, 60);
        let sizes = Size::ALL.map(|size| size.fit(&picture).dimensions());
        assert_eq!(sizes, [(320, 213), (1024, 683), (2560, 1707)]);
        assert_eq!(Size::Small.fit(&synthetic(2000, 10)).dimensions(), (320, 2));
    }

    #[test]
    fn the_file_has_the_pixels() {
        let item = Item::new(synthetic(33, 21)).unwrap();
        let options = DecodeOptions {
            limits: Limits::default(),
            background: [255; 3],
        };
        assert_eq!(decode(&item.file, &options).unwrap().pixels, *item.pixels);
    }
}
