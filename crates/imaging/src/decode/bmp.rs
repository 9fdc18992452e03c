//! BMP. The header states the length of an uncompressed file, so truncation is detected before memory is allocated.

use std::io::Cursor;

use image::codecs::bmp::BmpDecoder;

use super::{DecodeError, DecodeOptions, Stored, read};
use crate::format::Format;

pub(super) fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<Stored, DecodeError> {
    if let Some(header) = Header::parse(bytes) {
        options.limits.check_size(header.width, header.height)?;
        if header.min_length().is_some_and(|n| n > bytes.len() as u64) {
            return Err(DecodeError::truncated(Format::Bmp));
        }
    }
    let pixels = read(BmpDecoder::new(Cursor::new(bytes)), Format::Bmp, options)?;
    Ok(Stored::full(pixels, 1))
}

/// Returns the size in the header.
pub(super) fn stated_size(bytes: &[u8]) -> Option<(u32, u32)> {
    Header::parse(bytes).map(|header| (header.width, header.height))
}

struct Header {
    width: u32,
    height: u32,
    bits: u16,
    compression: u32,
    pixels_at: u32,
}

impl Header {
    /// Reads the fields that determine the length. Returns `None` if the header is too short, which the decoder
    /// reports.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let short = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let long = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let pixels_at = long(10)?;
        Some(if long(14)? == 12 {
            // The OS/2 core header: 16-bit sizes, never compressed.
            Self {
                width: short(18)?.into(),
                height: short(20)?.into(),
                bits: short(24)?,
                compression: 0,
                pixels_at,
            }
        } else {
            // A negative height means that rows are stored from the top.
            Self {
                width: u32::try_from(long(18)?.cast_signed()).ok()?,
                height: long(22)?.cast_signed().unsigned_abs(),
                bits: short(28)?,
                compression: long(30)?,
                pixels_at,
            }
        })
    }

    /// Returns the smallest length of an uncompressed file: all rows, the last one without padding. Returns `None` for
    /// compressed files.
    fn min_length(&self) -> Option<u64> {
        // 0 is BI_RGB, 3 and 6 are bit fields; the others are run-length coded or embedded formats.
        if !matches!(self.compression, 0 | 3 | 6) {
            return None;
        }
        let row_bits = u64::from(self.width) * u64::from(self.bits);
        let stride = row_bits.div_ceil(32) * 4;
        let rows_before = u64::from(self.height.checked_sub(1)?);
        Some(u64::from(self.pixels_at) + stride * rows_before + row_bits.div_ceil(8))
    }
}
