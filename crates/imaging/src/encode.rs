//! Encoding of RGB images.

use std::io::Write;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::webp::WebPEncoder;
use image::error::{EncodingError, ImageFormatHint};
use image::{ExtendedColorType, ImageEncoder, ImageError, ImageFormat, RgbImage};
use ravif::{BitDepth, Img, RGBA8};

use super::checkpoint::{CheckedWriter, strips};

/// The format of an encoded image.
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
    /// AVIF, lossy, at [`AVIF_QUALITY`].
    Avif,
}

/// The quality of AVIF images, 1..=100. The photograph t1.jpg has a PSNR of 39.5 dB at 80 and 45.8 dB at 95.
pub const AVIF_QUALITY: u8 = 85;
/// The speed of the AVIF encoder, 1..=10. Slower settings take seconds for a photograph.
const AVIF_SPEED: u8 = 10;
/// The maximum number of pixels of an AVIF image, about those of 4K. The encoder takes a second per megapixel.
const AVIF_MAX_PIXELS: u64 = 1 << 23;

/// The bytes of a chunk of a PNG. Larger chunks add fewer bytes to the file.
const PNG_CHUNK: usize = 1 << 18;

impl Default for OutputFormat {
    /// Returns JPEG at quality 95.
    fn default() -> Self {
        Self::Jpeg { quality: 95 }
    }
}

impl OutputFormat {
    /// Returns the lower-case name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg { .. } => "jpeg",
            Self::Png => "png",
            Self::Webp => "webp",
            Self::Avif => "avif",
        }
    }

    /// Returns the longest side that the format supports, in pixels.
    fn longest_side(self) -> u32 {
        match self {
            Self::Jpeg { .. } | Self::Avif => 65_535,
            Self::Png => i32::MAX.unsigned_abs(),
            Self::Webp => 16_383,
        }
    }

    /// Returns the bytes that each pixel of a response counts in addition to its own, because the encoder takes time.
    /// With it, a response of 256 MiB has no more AVIF pixels than a single AVIF image may have.
    pub fn surcharge(self) -> u64 {
        match self {
            Self::Jpeg { .. } | Self::Png | Self::Webp => 0,
            Self::Avif => 24,
        }
    }

    /// Returns the memory of the encoder for an image of `pixels` pixels, in bytes, beside the image and the file. It was measured at
    /// `facescan encode-image`, which holds copies of both, with noise, which takes the most. JPEG and PNG are written row by row.
    pub fn encoder_memory(self, pixels: u64) -> u64 {
        let bytes_a_pixel = match self {
            Self::Jpeg { .. } | Self::Png => 0,
            Self::Webp => 11,
            Self::Avif => 71,
        };
        pixels.min(self.max_pixels()).saturating_mul(bytes_a_pixel)
    }

    /// Returns the largest number of pixels that the encoder takes without a checkpoint, in about 20 ms. The encoders of
    /// WebP and AVIF have none; those of JPEG and PNG have some in images of every size.
    pub fn max_pixels_at_once(self) -> u64 {
        match self {
            Self::Jpeg { .. } | Self::Png => u64::MAX,
            Self::Webp => 1 << 19,
            Self::Avif => 1 << 14,
        }
    }

    /// Checks that an image has a size that the format supports and the encoder takes.
    ///
    /// # Errors
    /// Returns an [`EncodeError`] if it has no pixels or too many.
    pub fn check_size(self, (width, height): (u32, u32)) -> Result<(), EncodeError> {
        let longest_side = self.longest_side();
        if width.min(height) == 0 || width.max(height) > longest_side {
            return Err(EncodeError::Size {
                format: self.name(),
                longest_side,
                width,
                height,
            });
        }
        let max = self.max_pixels();
        if u64::from(width) * u64::from(height) > max {
            return Err(EncodeError::Pixels {
                format: self.name(),
                max,
                width,
                height,
            });
        }
        Ok(())
    }

    /// Returns the maximum number of pixels of an image in this format.
    fn max_pixels(self) -> u64 {
        match self {
            Self::Jpeg { .. } | Self::Png | Self::Webp => u64::MAX,
            Self::Avif => AVIF_MAX_PIXELS,
        }
    }
}

/// The reason why an image could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The image has no pixels, or a side longer than the format supports.
    #[error(
        "{format} images can have 1 to {longest_side} pixels a side, not {width}x{height}; choose another format"
    )]
    Size {
        /// The format.
        format: &'static str,
        /// The longest side that the format supports, in pixels.
        longest_side: u32,
        /// The image's width.
        width: u32,
        /// The image's height.
        height: u32,
    },
    /// The image has too many pixels for a slow encoder.
    #[error(
        "{format} images can have at most {max} pixels, not {width}x{height}; choose another format"
    )]
    Pixels {
        /// The format.
        format: &'static str,
        /// The maximum number of pixels.
        max: u64,
        /// The image's width.
        width: u32,
        /// The image's height.
        height: u32,
    },
    /// The encoder failed.
    #[error("the image could not be encoded as {format}")]
    Encoder {
        /// The format.
        format: &'static str,
        /// The error of the encoder.
        #[source]
        source: image::ImageError,
    },
}

/// Encodes an image.
///
/// # Errors
/// Returns an [`EncodeError`] if the image has no pixels, if it is too large for the format, or if the encoder fails.
pub fn encode(image: &RgbImage, output: OutputFormat) -> Result<Vec<u8>, EncodeError> {
    let (width, height) = image.dimensions();
    output.check_size((width, height))?;
    let mut file = Vec::new();
    let (samples, color) = (image.as_raw(), ExtendedColorType::Rgb8);
    match output {
        OutputFormat::Jpeg { quality } => {
            // A flat block has a byte or two, and takes half a microsecond.
            let mut file = CheckedWriter {
                inner: &mut file,
                weight: 256,
            };
            JpegEncoder::new_with_quality(&mut file, quality.clamp(1, 100))
                .write_image(samples, width, height, color)
        }
        OutputFormat::Png => png(image, &mut file).map_err(|error| match error {
            png::EncodingError::IoError(error) => ImageError::IoError(error),
            error => unencodable(ImageFormat::Png, error),
        }),
        OutputFormat::Webp => {
            WebPEncoder::new_lossless(&mut file).write_image(samples, width, height, color)
        }
        OutputFormat::Avif => match avif(image) {
            Ok(encoded) => return Ok(encoded),
            Err(error) => Err(unencodable(ImageFormat::Avif, error)),
        },
    }
    .map_err(|source| EncodeError::Encoder {
        format: output.name(),
        source,
    })?;
    Ok(file)
}

fn unencodable(
    format: ImageFormat,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> ImageError {
    ImageError::Encoding(EncodingError::new(ImageFormatHint::Exact(format), source))
}

/// Encodes an image as PNG, row by row. The encoder of the image library compresses all rows before it writes the first
/// one.
fn png(image: &RgbImage, file: &mut Vec<u8>) -> Result<(), png::EncodingError> {
    let (width, height) = image.dimensions();
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    encoder.set_filter(png::Filter::Adaptive);
    let mut writer = encoder.write_header()?;
    let mut stream = writer.stream_writer_with_size(PNG_CHUNK)?;
    let stride = width as usize * 3;
    for rows in strips(height, stride) {
        let rows = rows.start as usize * stride..rows.end as usize * stride;
        stream.write_all(&image.as_raw()[rows])?;
    }
    stream.finish()?;
    writer.finish()
}

/// Encodes an opaque image as AVIF.
///
/// This uses `encode_rgba`, which leaves out the alpha channel of an opaque image. The compiler would build the whole
/// encoder a second time for `encode_rgb`, or for the generic encoder of the image library.
fn avif(image: &RgbImage) -> Result<Vec<u8>, ravif::Error> {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let pixels: Vec<RGBA8> = image
        .pixels()
        .map(|pixel| RGBA8::new(pixel[0], pixel[1], pixel[2], u8::MAX))
        .collect();
    let encoded = ravif::Encoder::new()
        .with_quality(f32::from(AVIF_QUALITY))
        .with_speed(AVIF_SPEED)
        .with_bit_depth(BitDepth::Eight)
        // The other threads encode other images.
        .with_num_threads(Some(1))
        .encode_rgba(Img::new(&pixels, width, height));
    Ok(encoded?.avif_file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{DecodeOptions, decode};
    use crate::format::{Sniffed, sniff};
    use crate::synthetic::synthetic;

    #[test]
    fn lossless_formats_preserve_the_pixels() {
        let image = synthetic(33, 21);
        for output in [OutputFormat::Png, OutputFormat::Webp] {
            let file = encode(&image, output).unwrap();
            let back = decode(&file, &DecodeOptions::default()).unwrap();
            let found = (back.format.name(), back.orientation);
            assert_eq!(found, (output.name(), 1));
            assert_eq!(back.pixels, image);
        }
    }

    #[test]
    fn jpeg_quality_changes_the_file_size() {
        let image = synthetic(64, 64);
        let size = |quality| {
            encode(&image, OutputFormat::Jpeg { quality })
                .unwrap()
                .len()
        };
        assert!(size(95) > 2 * size(30));
        assert_eq!(size(0), size(1));
        assert_eq!(size(255), size(100));
    }

    /// There is no AVIF decoder here, so the test does not compare pixels.
    #[test]
    fn avif_states_its_size_and_is_smaller_than_jpeg() {
        let image = synthetic(97, 61);
        let file = encode(&image, OutputFormat::Avif).unwrap();
        assert_eq!(sniff(&file), Sniffed::Other("avif"));
        let size = b"ispe\0\0\0\0\0\0\0\x61\0\0\0\x3D";
        assert!(file.windows(size.len()).any(|bytes| bytes == size));
        assert!(file.len() < encode(&image, OutputFormat::default()).unwrap().len());
        let large = RgbImage::new(4096, 2049);
        assert_eq!(
            encode(&large, OutputFormat::Avif).unwrap_err().to_string(),
            "avif images can have at most 8388608 pixels, not 4096x2049; choose another format"
        );
    }

    #[test]
    fn sizes_that_a_format_does_not_support_are_refused() {
        let long = RgbImage::new(16_384, 1);
        let error = encode(&long, OutputFormat::Webp).unwrap_err();
        assert_eq!(
            error.to_string(),
            "webp images can have 1 to 16383 pixels a side, not 16384x1; choose another format"
        );
        assert!(encode(&long, OutputFormat::Png).is_ok());
        assert!(encode(&RgbImage::new(0, 5), OutputFormat::default()).is_err());
    }
}
