//! Encoded bytes to upright RGB pixels.
//!
//! The format is found from the bytes, the limits are checked from the header, and only then are pixels
//! allocated. Alpha is composited on a stated colour and the EXIF orientation is applied once.
//!
//! **What counts as truncated.** A file that ends before its pixels do is [`DecodeError::Truncated`]; no format
//! gives a half-grey image. A file whose pixels are complete is decoded even when its end mark is missing or
//! garbage follows it. A file that has its end mark and damage before it is [`DecodeError::Corrupt`].

mod bmp;
mod exif;
mod flatten;
mod gif;
mod jpeg;
mod orientation;
mod png;
mod tiff;
mod webp;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::error::LimitErrorKind;
use image::{DynamicImage, ImageDecoder, ImageError, RgbImage};

use super::format::{Format, Sniffed, sniff};
use super::limits::{Exceeded, LimitKind, Limits};
use super::memory::PixelMemory;

/// How to decode.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecodeOptions {
    /// What the image may cost.
    pub limits: Limits,
    /// The RGB colour that shows through transparent pixels.
    pub background: [u8; 3],
}

/// A decoded image.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The upright pixels, 8-bit RGB.
    pub pixels: RgbImage,
    /// The format of the file.
    pub format: Format,
    /// The EXIF orientation that was found and applied, 1..=8; 1 when there was none.
    pub orientation: u8,
}

/// Why a file gives no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not a format that is decoded.
    #[error("{}; send jpeg, png, webp, gif, bmp or tiff", not_decoded(.format))]
    UnsupportedMedia {
        /// The format's name; `None` for bytes of no known image format.
        format: Option<&'static str>,
    },
    /// A supported format in a variant that is not.
    #[error("this {format} variant is not supported: {detail}; convert the image first")]
    Unsupported {
        /// The format.
        format: Format,
        /// What is not supported.
        detail: String,
    },
    /// The file contradicts its format.
    #[error("the {format} file is damaged: {detail}")]
    Corrupt {
        /// The format.
        format: Format,
        /// What is wrong.
        detail: String,
    },
    /// The file ends before its pixels do.
    #[error("the {format} file is cut short; send all of it")]
    Truncated {
        /// The format.
        format: Format,
    },
    /// The image is over a limit.
    #[error("the image has {found} {limit}, at most {max} are allowed")]
    TooLarge {
        /// The limit.
        limit: LimitKind,
        /// Its value.
        max: u64,
        /// What the image has.
        found: u64,
    },
}

fn not_decoded(format: &Option<&str>) -> String {
    match format {
        Some(name) => format!("{name} images are not supported"),
        None => "the bytes are of no known image format".to_owned(),
    }
}

impl From<Exceeded> for DecodeError {
    fn from(exceeded: Exceeded) -> Self {
        Self::TooLarge {
            limit: exceeded.limit,
            max: exceeded.max,
            found: exceeded.found,
        }
    }
}

impl DecodeError {
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

    /// Sorts a decoder's error. Its text stays behind: it names functions, not remedies.
    fn from_image(format: Format, limits: &Limits, error: &ImageError) -> Self {
        match error {
            ImageError::Unsupported(_) => {
                Self::unsupported(format, "its colour type or compression cannot be decoded")
            }
            ImageError::Limits(error) if error.kind() != LimitErrorKind::DimensionError => {
                Self::TooLarge {
                    limit: LimitKind::Memory,
                    max: limits.decode_bytes(),
                    found: limits.decode_bytes().saturating_add(1),
                }
            }
            error if ends_early(error) => Self::Truncated { format },
            _ => Self::corrupt(format, "its data cannot be decoded"),
        }
    }
}

/// Whether reading past the end is somewhere in the chain of causes.
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
/// See [`DecodeError`]. No input panics, and none allocates beyond a small multiple of
/// [`Limits::decode_bytes`].
pub fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<Decoded, DecodeError> {
    decode_within(bytes, options, &PixelMemory::new(0))
}

/// The same into memory that an image before it had, where the format's decoder can.
///
/// # Errors
/// As [`decode`].
pub fn decode_within(
    bytes: &[u8],
    options: &DecodeOptions,
    memory: &PixelMemory,
) -> Result<Decoded, DecodeError> {
    options.limits.check_bytes(bytes.len() as u64)?;
    let format = match sniff(bytes) {
        Sniffed::Accepted(format) => format,
        Sniffed::Other(name) => {
            return Err(DecodeError::UnsupportedMedia { format: Some(name) });
        }
        Sniffed::Unknown => {
            return Err(DecodeError::UnsupportedMedia { format: None });
        }
    };
    // The decoders are meant not to panic. One that does must cost its own image only.
    let decoded = catch_unwind(AssertUnwindSafe(|| match format {
        Format::Jpeg => jpeg::decode(bytes, options, memory),
        Format::Png => png::decode(bytes, options),
        Format::Webp => webp::decode(bytes, options),
        Format::Gif => gif::decode(bytes, options),
        Format::Bmp => bmp::decode(bytes, options),
        Format::Tiff => tiff::decode(bytes, options),
    }));
    let Stored {
        pixels,
        orientation,
    } = decoded.unwrap_or_else(|_| {
        Err(DecodeError::corrupt(
            format,
            "it holds data that no decoder expects",
        ))
    })?;
    Ok(Decoded {
        pixels: orientation::upright(pixels, orientation),
        format,
        orientation,
    })
}

/// Pixels as the file stores them, and the orientation that it states.
struct Stored {
    pixels: RgbImage,
    orientation: u8,
}

/// Checks a decoder's header against the limits, then lets it decode and drops the alpha.
fn read(
    mut decoder: impl ImageDecoder,
    format: Format,
    options: &DecodeOptions,
) -> Result<RgbImage, DecodeError> {
    let limits = &options.limits;
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
        .map_err(|error| DecodeError::from_image(format, limits, &error))
}

/// The limits in the image library's terms. A decoder may hold its own copy of the samples beside ours.
fn library_limits(limits: &Limits) -> image::Limits {
    let mut library = image::Limits::no_limits();
    library.max_image_width = Some(limits.max_width);
    library.max_image_height = Some(limits.max_height);
    library.max_alloc = Some(limits.decode_bytes().saturating_mul(2));
    library
}
