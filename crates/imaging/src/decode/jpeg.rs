//! JPEG: gray, YCbCr, RGB, CMYK and YCCK; baseline and progressive.
//!
//! Four-channel files are read as inverted, with or without the Adobe marker, as Adobe writes them and Pillow reads
//! them: R = C·K / 255 on the stored values.
//!
//! The decoder fills the missing part of a truncated file with gray and reports no error. So the markers are read first
//! ([`walk`]). A file with an end marker is decoded strictly. A file without one is decoded several times, with
//! different bytes appended: equal pixels mean that the scans are complete and only the marker is missing. It must have few
//! scans, because every attempt goes over all of them.
//!
//! libjpeg-turbo reduces images if a [`Reduction`] is given. It reads only complete files without damage.

pub mod turbo;
mod walk;

use image::RgbImage;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use self::walk::Walk;
pub(super) use self::walk::stated_size;
use super::{DecodeError, DecodeOptions, Reduction, Stored};
use crate::format::Format;
use crate::memory::PixelMemory;

const END_OF_IMAGE: [u8; 2] = [0xFF, 0xD9];

/// Bytes that replace missing scan data; in the first attempt the decoder itself inserts zeros. They begin with
/// different codes, because the last code may belong to a part of the last block that is outside the image.
const OTHER_CONTINUATIONS: [[u8; 4]; 3] = [
    [0x6B, 0xD3, 0x94, 0x2E],
    [0xB5, 0x5A, 0xC9, 0x37],
    [0xD3, 0x94, 0x2E, 0x6B],
];

const TRUNCATED: DecodeError = DecodeError::truncated(Format::Jpeg);

/// Files with more scans are not reduced, and are not decoded without an end marker. Encoders write about ten scans, and each
/// scan takes the time of a whole image. The decoder refuses more than a hundred.
const MAX_USUAL_SCANS: u32 = 32;

/// The scans that take together as long as the rest of decoding, about as many as encoders write.
const SCANS_PER_PASS: u32 = 10;

/// Decodes a file. If `reduction` is given, the image is reduced if possible.
pub(super) fn decode(
    bytes: &[u8],
    options: &DecodeOptions,
    memory: &PixelMemory,
    reduction: Option<&Reduction<'_>>,
) -> Result<Stored, DecodeError> {
    let walk = Walk::over(bytes)?;
    let (width, height) = (u32::from(walk.width), u32::from(walk.height));
    options.limits.check_size(width, height)?;
    // Every 8×8 block takes at least one bit, so a short file with a large header allocates nothing.
    let blocks = u64::from(width.div_ceil(8)) * u64::from(height.div_ceil(8));
    if blocks > bytes.len() as u64 * 8 {
        return Err(TRUNCATED);
    }
    let orientation = walk.orientation.unwrap_or(1);
    if let Some((pixels, divisor)) = reduction.and_then(|r| reduced(bytes, &walk, memory, r)) {
        return Ok(Stored {
            pixels,
            orientation,
            divisor,
            size: (width, height),
        });
    }
    let len = width as usize * height as usize * 3;
    let samples = if walk.ended {
        samples(&walk.without_junk(bytes), memory.take(len))
            .map_err(|error| convert_error(&error))?
    } else if walk.is_complete() && walk.scans <= MAX_USUAL_SCANS {
        without_end_marker(&walk.without_junk(bytes), len)?
    } else {
        return Err(TRUNCATED);
    };
    let pixels = samples
        .and_then(|samples| RgbImage::from_raw(width, height, samples))
        .ok_or_else(|| DecodeError::corrupt(Format::Jpeg, "its headers disagree about its size"))?;
    Ok(Stored::full(pixels, orientation))
}

/// Returns how often a decoder goes over the pixels of a file.
pub(super) fn passes(bytes: &[u8]) -> u64 {
    let Ok(walk) = Walk::over(bytes) else {
        return 1;
    };
    let attempts = match walk.ended {
        true => 1,
        false => 1 + OTHER_CONTINUATIONS.len() as u64,
    };
    attempts * u64::from(1 + walk.scans / (SCANS_PER_PASS + 1))
}

/// Decodes a file to a fraction of its sides, and returns the pixels and the divisor of the sides.
///
/// Returns `None` if the file must be decoded in full, because it is small, incomplete, damaged or unusual.
fn reduced(
    bytes: &[u8],
    walk: &Walk,
    memory: &PixelMemory,
    reduction: &Reduction<'_>,
) -> Option<(RgbImage, u32)> {
    if !walk.ended || walk.scans > MAX_USUAL_SCANS || walk.may_be_rgb() {
        return None;
    }
    let (width, height) = (u32::from(walk.width), u32::from(walk.height));
    let divisor = reduction.divisor((width, height), walk.orientation.unwrap_or(1))?;
    let (reduced_width, reduced_height) = (width.div_ceil(divisor), height.div_ceil(divisor));
    let mut samples = memory.take(reduced_width as usize * reduced_height as usize * 3);
    let bytes = walk.without_junk(bytes);
    if !(reduction.library).decode(&bytes, (width, height), divisor, &mut samples) {
        memory.keep(samples);
        return None;
    }
    let pixels = RgbImage::from_raw(reduced_width, reduced_height, samples)?;
    Some((pixels, divisor))
}

/// Decodes a file without an end marker, if nothing else is missing.
fn without_end_marker(bytes: &[u8], len: usize) -> Result<Option<Vec<u8>>, DecodeError> {
    // A trailing 0xFF is half of a marker or of a stuffed byte, and has no pixels.
    let end = bytes.iter().rposition(|b| *b != 0xFF).map_or(0, |i| i + 1);
    let bytes = &bytes[..end];
    let first = [bytes, &END_OF_IMAGE].concat();
    let decoded = samples(&first, vec![0; len]).map_err(|_| TRUNCATED)?;
    let complete = OTHER_CONTINUATIONS.iter().all(|continuation| {
        let other = [bytes, &continuation.repeat(16), &END_OF_IMAGE].concat();
        samples(&other, vec![0; len]).is_ok_and(|other| other == decoded)
    });
    if complete {
        Ok(decoded)
    } else {
        Err(TRUNCATED)
    }
}

/// Decodes the samples into `buffer`. Returns `None` if their number is not its length.
///
/// The decoder does not write the part of the buffer that a damaged file has no data for, and reports no error. It
/// writes from the top, so the last bytes of the buffer are set to a mark before. If they still have the mark, a second
/// attempt with another mark shows whether the image ends with it by chance.
fn samples(bytes: &[u8], mut buffer: Vec<u8>) -> Result<Option<Vec<u8>>, DecodeErrors> {
    for mark in [0x6B, 0x94] {
        let options = DecoderOptions::default()
            .set_strict_mode(true)
            .set_max_width(usize::from(u16::MAX))
            .set_max_height(usize::from(u16::MAX))
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers()?;
        if decoder.output_buffer_size() != Some(buffer.len()) {
            return Ok(None);
        }
        // The buffer may have the pixels of an earlier image.
        buffer.fill(0);
        let end = buffer.len().saturating_sub(MARKED);
        buffer[end..].fill(mark);
        decoder.decode_into(&mut buffer)?;
        if buffer[end..].iter().any(|sample| *sample != mark) {
            return Ok(Some(buffer));
        }
    }
    Err(DecodeErrors::ExhaustedData)
}

/// Marked bytes at the end of the buffer: at least a pixel.
const MARKED: usize = 12;

fn convert_error(error: &DecodeErrors) -> DecodeError {
    match error {
        DecodeErrors::Unsupported(_) => {
            DecodeError::unsupported(Format::Jpeg, "its coding process cannot be decoded")
        }
        DecodeErrors::ExhaustedData => TRUNCATED,
        _ => DecodeError::corrupt(Format::Jpeg, "its scan data cannot be decoded"),
    }
}
