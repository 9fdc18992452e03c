//! PNG. The library handles color types, depths, interlacing and tRNS; EXIF is read from anywhere in the file.

use std::io::Cursor;

use image::RgbImage;
use image::codecs::png::PngDecoder;

use super::{DecodeError, DecodeOptions, Stored, orientation, read};
use crate::format::Format;

/// The highest compression ratio of deflate.
const DEFLATE_RATIO: u64 = 1032;

/// The memory for everything except pixels: color profiles and text, which may be decompression bombs.
const METADATA_BYTES: u64 = 32 << 20;

/// The end chunk.
const END: [u8; 12] = *b"\0\0\0\0IEND\xAE\x42\x60\x82";

pub(super) fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<Stored, DecodeError> {
    let mut orientation = None;
    let mut chunks = Chunks { bytes, at: 8 };
    let mut ended = false;
    for (kind, data) in chunks.by_ref() {
        match kind {
            b"IHDR" => check_header(data, bytes.len() as u64, options)?,
            b"CgBI" => {
                let detail = "apple's optimized form is not png";
                return Err(DecodeError::unsupported(Format::Png, detail));
            }
            b"eXIf" => orientation = orientation.or_else(|| orientation::read(data)),
            b"IEND" => ended = true,
            _ => {}
        }
    }
    let pixels = if ended {
        pixels(bytes, options)
    } else {
        // The complete chunks may have all pixels. If they do not, the file is truncated, even if the decoder reports
        // another error.
        let closed = [&bytes[..chunks.at.min(bytes.len())], &END].concat();
        pixels(&closed, options).map_err(|error| match error {
            DecodeError::Corrupt { format, .. } => DecodeError::Truncated { format },
            other => other,
        })
    };
    Ok(Stored::full(pixels?, orientation.unwrap_or(1)))
}

/// Returns the size in the header, which is the first chunk.
pub(super) fn stated_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let side = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    Some((side(16)?, side(20)?))
}

fn pixels(bytes: &[u8], options: &DecodeOptions) -> Result<RgbImage, DecodeError> {
    let mut library = image::Limits::no_limits();
    library.max_alloc = Some(METADATA_BYTES);
    let decoder = PngDecoder::with_limits(Cursor::new(bytes), library);
    read(decoder, Format::Png, options)
}

/// Iterates over the complete chunks up to the end chunk: type and data. Afterwards `at` is the start of the first
/// incomplete chunk.
struct Chunks<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (&'a [u8; 4], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..)?;
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let (kind, tail) = tail.split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*length) as usize;
        let (data, checksum) = tail.split_at_checked(length)?;
        if checksum.len() < 4 {
            return None;
        }
        // Nothing after the end chunk is read.
        self.at = if kind == b"IEND" {
            self.bytes.len()
        } else {
            self.at + 12 + length
        };
        Some((kind, data))
    }
}

/// Checks the limits, and that the file is long enough for its pixels, so that a short file with a large header
/// allocates nothing.
fn check_header(data: &[u8], file: u64, options: &DecodeOptions) -> Result<(), DecodeError> {
    let (Some(width), Some(height), Some(depth), Some(color)) = (
        data.first_chunk::<4>(),
        data.get(4..8).and_then(|h| h.first_chunk::<4>()),
        data.get(8),
        data.get(9),
    ) else {
        return Err(DecodeError::corrupt(Format::Png, "its header is too short"));
    };
    let (width, height) = (u32::from_be_bytes(*width), u32::from_be_bytes(*height));
    options.limits.check_size(width, height)?;
    let channels = match color {
        2 => 3,
        4 => 2,
        6 => 4,
        _ => 1,
    };
    let row = (u64::from(width) * channels * u64::from(*depth)).div_ceil(8);
    if row * u64::from(height) / DEFLATE_RATIO > file {
        return Err(DecodeError::truncated(Format::Png));
    }
    Ok(())
}
