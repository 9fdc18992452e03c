//! PNG: colour types, depths, interlacing and tRNS by the library; EXIF from anywhere in the file.

use std::io::Cursor;

use image::codecs::png::PngDecoder;

use super::{DecodeError, DecodeOptions, Stored, exif, read};
use crate::imaging::format::Format;

/// Deflate gives at most 1032 bytes for one.
const DEFLATE_RATIO: u64 = 1032;

/// What a decoder may hold besides pixels: colour profiles and text, which are compressed and may be bombs.
const METADATA_BYTES: u64 = 32 << 20;

pub(super) fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<Stored, DecodeError> {
    let limits = &options.limits;
    let mut orientation = None;
    for (kind, data) in chunks(bytes) {
        match kind {
            b"IHDR" => check_header(data, bytes.len() as u64, options)?,
            b"CgBI" => {
                let detail = "apple's optimised form is not png";
                return Err(DecodeError::unsupported(Format::Png, detail));
            }
            b"eXIf" => orientation = orientation.or_else(|| exif::orientation(data)),
            _ => {}
        }
    }
    let mut library = image::Limits::no_limits();
    library.max_alloc = Some(METADATA_BYTES);
    let decoder = PngDecoder::with_limits(Cursor::new(bytes), library)
        .map_err(|error| DecodeError::from_image(Format::Png, limits, &error))?;
    Ok(Stored {
        pixels: read(decoder, Format::Png, options)?,
        orientation: orientation.unwrap_or(1),
    })
}

/// The complete chunks: type and data.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    let mut rest = bytes.get(8..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let (kind, tail) = tail.split_first_chunk::<4>()?;
        let (data, tail) = tail.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        rest = tail.get(4..)?;
        Some((kind, data))
    })
}

/// Limits first; then whether the file is long enough to hold its pixels at all, so that a header alone
/// makes nobody allocate.
fn check_header(data: &[u8], file: u64, options: &DecodeOptions) -> Result<(), DecodeError> {
    let (Some(width), Some(height), Some(depth), Some(colour)) = (
        data.first_chunk::<4>(),
        data.get(4..8).and_then(|h| h.first_chunk::<4>()),
        data.get(8),
        data.get(9),
    ) else {
        return Err(DecodeError::corrupt(Format::Png, "its header is too short"));
    };
    let (width, height) = (u32::from_be_bytes(*width), u32::from_be_bytes(*height));
    options.limits.check_size(width, height)?;
    let channels = match colour {
        2 => 3,
        4 => 2,
        6 => 4,
        _ => 1,
    };
    let row = (u64::from(width) * channels * u64::from(*depth)).div_ceil(8);
    if row * u64::from(height) / DEFLATE_RATIO > file {
        return Err(DecodeError::Truncated {
            format: Format::Png,
        });
    }
    Ok(())
}
