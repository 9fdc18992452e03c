//! Decoding of image files to upright RGB pixels.
//!
//! The format is detected from the bytes. The limits are checked on the header, before memory is allocated for pixels.
//! Alpha is composited on a background color, and the EXIF orientation is applied once.
//!
//! **Truncated and corrupt files.** A file that ends before all pixels is [`DecodeError::Truncated`]; no format returns
//! an image that is partly gray. A file with all pixels is decoded, even when its end marker is missing or other data
//! follows it. A file with an end marker and damage before it is [`DecodeError::Corrupt`].

mod bmp;
mod flatten;
mod gif;
mod jpeg;
mod orientation;
mod png;
mod size;
mod tiff;
mod webp;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::error::LimitErrorKind;
use image::{DynamicImage, ImageDecoder, ImageError, RgbImage};

use super::checkpoint::resume_stop;
use super::format::{Format, Sniffed, sniff};
use super::memory::PixelMemory;

pub use jpeg::turbo::{SYSTEM_LIBRARY, TurboJpeg};
pub use size::{Exceeded, LimitKind, Limits, decoded_pixels, stated_size};

/// Options of decoding.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecodeOptions {
    /// The limits of the image's size.
    pub limits: Limits,
    /// The RGB background color of transparent pixels.
    pub background: [u8; 3],
}

/// A decoded image.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The upright pixels, 8-bit RGB.
    pub pixels: RgbImage,
    /// The pixels of the file for each pixel along a side: 1, or 2, 4 or 8 for a reduced image.
    pub divisor: u32,
    /// Width and height of the upright image in pixels, before it was reduced.
    pub size: (u32, u32),
    /// The format of the file.
    pub format: Format,
    /// The EXIF orientation that was found and applied, 1..=8; 1 when there was none.
    pub orientation: u8,
}

/// How far an image may be reduced while it is decoded. Only JPEGs are reduced.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    /// The decoder of reduced images.
    pub library: &'a TurboJpeg,
    /// The shortest allowed length of the longer side of the reduced image, in pixels.
    pub min_side: u32,
}

impl Reduction<'_> {
    /// Returns by what number the sides of a stored image are divided. Returns `None` if the image is not reduced.
    fn divisor(&self, (width, height): (u32, u32), orientation: u8) -> Option<u32> {
        // If a side is no multiple of the divisor, its last pixel stands for fewer pixels of the file. In a mirrored image
        // that pixel comes first, and would move all others.
        let is_exact = |divisor| {
            let are_multiples = width.is_multiple_of(divisor) && height.is_multiple_of(divisor);
            are_multiples || !orientation::mirrors(orientation)
        };
        [8, 4, 2].into_iter().find(|&divisor| {
            width.max(height) / divisor >= self.min_side.max(1) && is_exact(divisor)
        })
    }
}

/// The reason why a file cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The format is not supported.
    #[error("{}; send jpeg, png, webp, gif, bmp or tiff", not_decoded(.format))]
    UnsupportedMedia {
        /// The name of the format; `None` if it is unknown.
        format: Option<&'static str>,
    },
    /// The format is supported, but not this variant of it.
    #[error("this {format} variant is not supported: {detail}; convert the image first")]
    Unsupported {
        /// The format.
        format: Format,
        /// The unsupported property.
        detail: String,
    },
    /// The file violates its format.
    #[error("the {format} file is damaged: {detail}")]
    Corrupt {
        /// The format.
        format: Format,
        /// The violation.
        detail: String,
    },
    /// The file ends before all pixels.
    #[error("the {format} file is truncated; send the complete file")]
    Truncated {
        /// The format.
        format: Format,
    },
    /// The image exceeds a limit.
    #[error(transparent)]
    TooLarge(#[from] Exceeded),
}

/// A short text, which is usually the name of the file that was meant.
const FILE_NAME: &str = "file name";

/// A text that is no image.
const TEXT: &str = "text";

/// The longest text that can be the name of a file, in bytes.
const MAX_FILE_NAME_BYTES: usize = 255;

/// Returns what text the bytes are, if they are text.
fn text_kind(bytes: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_line = !text.contains(char::is_control);
    match text {
        "" => None,
        text if is_line && text.len() <= MAX_FILE_NAME_BYTES => Some(FILE_NAME),
        text if text.contains(|ch: char| ch.is_control() && !ch.is_whitespace()) => None,
        _ => Some(TEXT),
    }
}

fn not_decoded(format: &Option<&str>) -> String {
    match format {
        Some(FILE_NAME) => "the bytes are a short text and no image; if it is the name of a file, send the content of \
                            the file (curl needs `@` before the name)"
            .to_owned(),
        Some(TEXT) => "the bytes are text and no image".to_owned(),
        Some(name) => format!("{name} images are not supported"),
        None => "the bytes are of no known image format".to_owned(),
    }
}

impl DecodeError {
    const fn truncated(format: Format) -> Self {
        Self::Truncated { format }
    }

    fn corrupt(format: Format, detail: &str) -> Self {
        Self::Corrupt {
            format,
            detail: detail.to_owned(),
        }
    }

    fn unsupported(format: Format, detail: &str) -> Self {
        Self::Unsupported {
            format,
            detail: detail.to_owned(),
        }
    }

    /// Converts the error of a decoder. Its text is dropped, because it does not help a user.
    fn from_image(format: Format, limits: &Limits, error: &ImageError) -> Self {
        match error {
            ImageError::Unsupported(_) => {
                Self::unsupported(format, "its color type or compression cannot be decoded")
            }
            ImageError::Limits(error) if error.kind() != LimitErrorKind::DimensionError => {
                Self::TooLarge(Exceeded {
                    limit: LimitKind::Memory,
                    max: limits.decode_bytes(),
                    found: limits.decode_bytes().saturating_add(1),
                })
            }
            error if ends_early(error) => Self::Truncated { format },
            _ => Self::corrupt(format, "its data cannot be decoded"),
        }
    }
}

/// Returns whether the error was caused by the end of the file.
fn ends_early(error: &ImageError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = match error.downcast_ref::<ImageError>() {
            Some(ImageError::IoError(io)) => Some(io),
            _ => error.downcast_ref::<io::Error>(),
        };
        if io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Decodes `bytes` to upright RGB pixels.
///
/// # Errors
/// Returns a [`DecodeError`] if the file cannot be decoded. No input causes a panic, or allocates more than a small
/// multiple of [`Limits::decode_bytes`].
pub fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<Decoded, DecodeError> {
    decode_within(bytes, options, &PixelMemory::new(0), None)
}

/// Decodes like [`decode`], into a buffer of the pool if the decoder of the format supports that.
///
/// If `reduction` is given, a large JPEG is reduced while it is decoded. An image that cannot be reduced is decoded in full,
/// so `reduction` makes no file an error.
///
/// # Errors
/// Returns a [`DecodeError`] if the file cannot be decoded.
pub fn decode_within(
    bytes: &[u8],
    options: &DecodeOptions,
    memory: &PixelMemory,
    reduction: Option<&Reduction<'_>>,
) -> Result<Decoded, DecodeError> {
    options.limits.check_bytes(bytes.len() as u64)?;
    let format = match sniff(bytes) {
        Sniffed::Accepted(format) => format,
        Sniffed::Other(name) => {
            return Err(DecodeError::UnsupportedMedia { format: Some(name) });
        }
        Sniffed::Unknown => {
            let format = text_kind(bytes);
            return Err(DecodeError::UnsupportedMedia { format });
        }
    };
    // The decoders should not panic. If one does, only its own image fails.
    let decoded = catch_unwind(AssertUnwindSafe(|| match format {
        Format::Jpeg => jpeg::decode(bytes, options, memory, reduction),
        Format::Png => png::decode(bytes, options),
        Format::Webp => webp::decode(bytes, options),
        Format::Gif => gif::decode(bytes, options),
        Format::Bmp => bmp::decode(bytes, options),
        Format::Tiff => tiff::decode(bytes, options),
    }));
    let Stored {
        pixels,
        orientation,
        divisor,
        size,
    } = decoded.unwrap_or_else(|panic| {
        resume_stop(panic.as_ref());
        Err(DecodeError::corrupt(
            format,
            "it contains data that the decoder does not expect",
        ))
    })?;
    let is_turned = orientation::swaps_sides(orientation);
    Ok(Decoded {
        pixels: orientation::upright(pixels, orientation),
        divisor,
        size: if is_turned { (size.1, size.0) } else { size },
        format,
        orientation,
    })
}

/// The pixels as stored in the file, and the file's EXIF orientation.
struct Stored {
    pixels: RgbImage,
    orientation: u8,
    /// See [`Decoded::divisor`].
    divisor: u32,
    /// Width and height of the stored image, before it was reduced.
    size: (u32, u32),
}

impl Stored {
    /// All pixels of the file.
    fn full(pixels: RgbImage, orientation: u8) -> Self {
        Self {
            size: pixels.dimensions(),
            pixels,
            orientation,
            divisor: 1,
        }
    }
}

/// Checks the header against the limits, decodes, and composites alpha.
fn read(
    decoder: Result<impl ImageDecoder, ImageError>,
    format: Format,
    options: &DecodeOptions,
) -> Result<RgbImage, DecodeError> {
    let limits = &options.limits;
    let from_image = |error: &ImageError| DecodeError::from_image(format, limits, error);
    let mut decoder = decoder.map_err(|error| from_image(&error))?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err(DecodeError::corrupt(format, "it has no pixels"));
    }
    limits.check_size(width, height)?;
    limits.check_memory(decoder.total_bytes())?;
    decoder
        .set_limits(library_limits(limits))
        .and_then(|()| DynamicImage::from_decoder(decoder))
        .map(|image| flatten::onto(image, options.background))
        .map_err(|error| from_image(&error))
}

/// Returns the limits for the image library. The memory is doubled, because a decoder may have its own copy of the
/// samples.
fn library_limits(limits: &Limits) -> image::Limits {
    let mut library = image::Limits::no_limits();
    library.max_image_width = Some(limits.max_width);
    library.max_image_height = Some(limits.max_height);
    library.max_alloc = Some(limits.decode_bytes().saturating_mul(2));
    library
}
