//! The test material: real images at a size, and the faces in them.

use std::{io::Cursor, sync::Arc};

use anyhow::Context;
use bytes::Bytes;
use clap::ValueEnum;
use facescan_pipeline::{
    core::image_file::{ContentHash, content_hash},
    ingest::intake::LoadedImage,
};
use image::{ExtendedColorType, ImageEncoder, RgbImage, codecs::bmp::BmpEncoder};
use serde::Serialize;

use facescan_imaging::resize::{Filter, resize};

/// The size of the images.
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
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// Returns the name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }

    /// Returns the long side in pixels.
    pub fn long_side(self) -> u32 {
        match self {
            Self::Small => 320,
            Self::Medium => 1024,
            Self::Large => 2560,
        }
    }

    /// Resizes an image to this long side. The result may be larger than the image.
    pub fn fit(self, image: &RgbImage) -> RgbImage {
        let longest = f64::from(image.width().max(image.height()));
        let scale = f64::from(self.long_side()) / longest.max(1.0);
        let scaled = |side: u32| (f64::from(side) * scale).round() as u32;
        let (width, height) = (scaled(image.width()), scaled(image.height()));
        resize(image, width, height, Filter::Bilinear)
    }
}

/// The test material at one size.
pub struct Material {
    pub size: Size,
    pub images: Vec<Item>,
    /// The aligned crops of the faces.
    pub crops: Vec<Item>,
}

/// An image in two forms: pixels, and an uncompressed file for operations that take files.
pub struct Item {
    /// Upright 8-bit RGB.
    pub pixels: Arc<RgbImage>,
    /// The pixels as a BMP. Decoding a BMP is only a copy.
    pub file: Bytes,
    /// The sha256 of the BMP.
    pub hash: ContentHash,
}

impl Item {
    /// Returns the file as the pipeline takes it. Its hash is not computed again.
    pub fn loaded(&self) -> LoadedImage {
        LoadedImage {
            hash: Some(self.hash),
            ..self.file.clone().into()
        }
    }

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
        decode::{DecodeOptions, Limits, decode},
        synthetic::synthetic,
    };

    #[test]
    fn images_keep_their_aspect_ratio_at_every_size() {
        let image = synthetic(90, 60);
        let sizes = Size::ALL.map(|size| size.fit(&image).dimensions());
        assert_eq!(sizes, [(320, 213), (1024, 683), (2560, 1707)]);
        assert_eq!(Size::Small.fit(&synthetic(2000, 10)).dimensions(), (320, 2));
    }

    #[test]
    fn the_bmp_contains_the_pixels() {
        let item = Item::new(synthetic(33, 21)).unwrap();
        let options = DecodeOptions {
            limits: Limits::default(),
            background: [255; 3],
        };
        assert_eq!(decode(&item.file, &options).unwrap().pixels, *item.pixels);
    }
}
