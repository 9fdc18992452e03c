//! The size of an image: what its file states, and the limits, which are checked on the header, before memory is allocated for
//! pixels.

use std::{fmt, io::Cursor};

use image::{ImageDecoder, codecs::tiff::TiffDecoder};

use super::{bmp, jpeg, png, webp};
use crate::format::{Format, Sniffed, sniff};

/// Returns the width and the height that a file states, in stored pixels, without decoding it. Returns `None` if its
/// header cannot be read. The decoder checks the size again.
pub fn stated_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let Sniffed::Accepted(format) = sniff(bytes) else {
        return None;
    };
    match format {
        Format::Jpeg => jpeg::stated_size(bytes),
        Format::Png => png::stated_size(bytes),
        Format::Webp => webp::stated_size(bytes),
        Format::Gif => {
            let [w0, w1, h0, h1] = *bytes.get(6..)?.first_chunk()?;
            let side = |low, high| u32::from(u16::from_le_bytes([low, high]));
            Some((side(w0, w1), side(h0, h1)))
        }
        Format::Bmp => bmp::stated_size(bytes),
        Format::Tiff => Some(TiffDecoder::new(Cursor::new(bytes)).ok()?.dimensions()),
    }
}

/// Returns the pixels that a decoder goes over: those of the image, times the passes of a JPEG with many scans or without an end
/// marker. Returns `None` if the header states no size.
///
/// This reads the markers of the whole file, so call it for small files.
pub fn decoded_pixels(bytes: &[u8]) -> Option<u64> {
    let (width, height) = stated_size(bytes)?;
    let passes = match sniff(bytes) {
        Sniffed::Accepted(Format::Jpeg) => jpeg::passes(bytes),
        _ => 1,
    };
    Some(u64::from(width) * u64::from(height) * passes)
}

/// Upper limits for one encoded image and its pixels. Each limit is inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the encoded file.
    pub max_bytes: u64,
    /// Stored width in pixels, before the EXIF orientation is applied.
    pub max_width: u32,
    /// Stored height in pixels, before the EXIF orientation is applied.
    pub max_height: u32,
    /// Width × height.
    pub max_pixels: u64,
}

impl Default for Limits {
    /// Returns 20 MiB, 16384 × 16384 pixels and 100 megapixels.
    fn default() -> Self {
        Self {
            max_bytes: 20 << 20,
            max_width: 16_384,
            max_height: 16_384,
            max_pixels: 100_000_000,
        }
    }
}

/// The limit that an image exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// [`Limits::max_bytes`].
    Bytes,
    /// [`Limits::max_width`].
    Width,
    /// [`Limits::max_height`].
    Height,
    /// [`Limits::max_pixels`].
    Pixels,
    /// [`Limits::decode_bytes`].
    Memory,
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Width => "pixels wide",
            Self::Height => "pixels high",
            Self::Pixels => "pixels in all",
            Self::Memory => "bytes of decoded samples",
        })
    }
}

/// The error of an image that exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the image has {found} {limit}, at most {max} are allowed")]
pub struct Exceeded {
    /// The limit.
    pub limit: LimitKind,
    /// Its value.
    pub max: u64,
    /// The value of the image.
    pub found: u64,
}

impl Limits {
    /// Returns the maximum memory for decoded samples: 8 bytes per pixel, which is 16-bit RGBA. Only floating-point
    /// TIFFs close to the pixel limit need more; they are refused.
    pub fn decode_bytes(&self) -> u64 {
        self.max_pixels.saturating_mul(8)
    }

    pub(super) fn check_bytes(&self, found: u64) -> Result<(), Exceeded> {
        within(LimitKind::Bytes, self.max_bytes, found)
    }

    pub(super) fn check_size(&self, width: u32, height: u32) -> Result<(), Exceeded> {
        within(LimitKind::Width, self.max_width.into(), width.into())?;
        within(LimitKind::Height, self.max_height.into(), height.into())?;
        let pixels = u64::from(width) * u64::from(height);
        within(LimitKind::Pixels, self.max_pixels, pixels)
    }

    pub(super) fn check_memory(&self, found: u64) -> Result<(), Exceeded> {
        within(LimitKind::Memory, self.decode_bytes(), found)
    }
}

pub(super) fn within(limit: LimitKind, max: u64, found: u64) -> Result<(), Exceeded> {
    if found <= max {
        Ok(())
    } else {
        Err(Exceeded { limit, max, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        encode::{OutputFormat, encode},
        synthetic::synthetic,
    };

    const PIXELS: u64 = 320 * 240;

    fn jpeg() -> Vec<u8> {
        encode(&synthetic(320, 240), OutputFormat::default()).unwrap()
    }

    #[test]
    fn usual_files_are_gone_over_once() {
        let png = encode(&synthetic(320, 240), OutputFormat::Png).unwrap();
        assert_eq!(decoded_pixels(&jpeg()), Some(PIXELS));
        assert_eq!(decoded_pixels(&png), Some(PIXELS));
        assert_eq!(decoded_pixels(b"no image"), None);
    }

    #[test]
    fn a_jpeg_without_an_end_marker_is_gone_over_four_times() {
        let mut file = jpeg();
        file.truncate(file.len() - 2);
        assert_eq!(decoded_pixels(&file), Some(4 * PIXELS));
    }

    #[test]
    fn many_scans_count() {
        let file = jpeg();
        let scan = file.windows(2).rposition(|at| at == [0xFF, 0xDA]).unwrap();
        let (head, scan) = file.split_at(scan);
        let scan = &scan[..scan.len() - 2];
        let many = [head, &scan.repeat(33), &[0xFF, 0xD9]].concat();
        assert_eq!(decoded_pixels(&many), Some(4 * PIXELS));
    }

    /// The tests of decoding check the other limits in every format.
    #[test]
    fn the_memory_follows_the_pixels() {
        let limits = Limits {
            max_pixels: 400,
            ..Limits::default()
        };
        assert_eq!(limits.check_memory(3200), Ok(()));
        let exceeded = Exceeded {
            limit: LimitKind::Memory,
            max: 3200,
            found: 3201,
        };
        assert_eq!(limits.check_memory(3201), Err(exceeded));
    }
}
