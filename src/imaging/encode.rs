//! RGB pixels to an encoded file.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, ImageEncoder, RgbImage};

use super::format::Format;

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// JPEG at a quality of 1..=100; other values are clamped.
    Jpeg {
        /// The quality.
        quality: u8,
    },
    /// PNG, 8-bit RGB.
    Png,
    /// WebP, lossless.
    Webp,
}

impl Default for OutputFormat {
    /// JPEG at 95.
    fn default() -> Self {
        Self::Jpeg { quality: 95 }
    }
}

impl OutputFormat {
    /// The format that is written.
    pub fn format(self) -> Format {
        match self {
            Self::Jpeg { .. } => Format::Jpeg,
            Self::Png => Format::Png,
            Self::Webp => Format::Webp,
        }
    }

    /// The longest side that the format can state.
    fn longest_side(self) -> u32 {
        match self {
            Self::Jpeg { .. } => 65_535,
            Self::Png => i32::MAX.unsigned_abs(),
            Self::Webp => 16_383,
        }
    }
}

/// Why a picture could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The picture has no pixels, or a side that the format cannot state.
    #[error(
        "{format} holds pictures of 1 to {longest_side} pixels a side, not {width}x{height}; choose another format"
    )]
    Size {
        /// The format.
        format: Format,
        /// The longest side that it can state.
        longest_side: u32,
        /// The picture's width.
        width: u32,
        /// The picture's height.
        height: u32,
    },
    /// The encoder failed.
    #[error("the picture could not be encoded as {format}")]
    Encoder {
        /// The format.
        format: Format,
        /// The encoder's own error.
        #[source]
        source: image::ImageError,
    },
}

/// Encodes a picture.
///
/// # Errors
/// See [`EncodeError`].
pub fn encode(picture: &RgbImage, output: OutputFormat) -> Result<Vec<u8>, EncodeError> {
    let (width, height) = picture.dimensions();
    let longest_side = output.longest_side();
    if width.min(height) == 0 || width.max(height) > longest_side {
        return Err(EncodeError::Size {
            format: output.format(),
            longest_side,
            width,
            height,
        });
    }
    let mut file = Cursor::new(Vec::new());
    let (samples, colour) = (picture.as_raw(), ExtendedColorType::Rgb8);
    match output {
        OutputFormat::Jpeg { quality } => {
            JpegEncoder::new_with_quality(&mut file, quality.clamp(1, 100))
                .write_image(samples, width, height, colour)
        }
        OutputFormat::Png => PngEncoder::new(&mut file).write_image(samples, width, height, colour),
        OutputFormat::Webp => {
            WebPEncoder::new_lossless(&mut file).write_image(samples, width, height, colour)
        }
    }
    .map_err(|source| EncodeError::Encoder {
        format: output.format(),
        source,
    })?;
    Ok(file.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imaging::decode::{DecodeOptions, decode};
    use crate::imaging::synthetic::synthetic;

    #[test]
    fn lossless_formats_give_the_pixels_back() {
        let picture = synthetic(33, 21);
        for output in [OutputFormat::Png, OutputFormat::Webp] {
            let file = encode(&picture, output).unwrap();
            let back = decode(&file, &DecodeOptions::default()).unwrap();
            assert_eq!((back.format, back.orientation), (output.format(), 1));
            assert_eq!(back.pixels, picture);
        }
    }

    #[test]
    fn jpeg_quality_is_used() {
        let picture = synthetic(64, 64);
        let size = |quality| {
            encode(&picture, OutputFormat::Jpeg { quality })
                .unwrap()
                .len()
        };
        assert!(size(95) > 2 * size(30));
        assert_eq!(size(0), size(1));
        assert_eq!(size(255), size(100));
    }

    #[test]
    fn sizes_that_a_format_cannot_state() {
        let long = RgbImage::new(16_384, 1);
        let error = encode(&long, OutputFormat::Webp).unwrap_err();
        assert_eq!(
            error.to_string(),
            "webp holds pictures of 1 to 16383 pixels a side, not 16384x1; choose another format"
        );
        assert!(encode(&long, OutputFormat::Png).is_ok());
        assert!(encode(&RgbImage::new(0, 5), OutputFormat::default()).is_err());
    }
}
