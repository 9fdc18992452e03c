//! JPEG: grey, YCbCr, RGB, CMYK and YCCK; baseline and progressive.
//!
//! Four-channel files are taken as inverted, as Adobe writes them and as Pillow reads them, with or without the
//! Adobe marker: R = C·K / 255 on the stored values.
//!
//! The decoder fills what a short file lacks with grey and says nothing. So the markers are walked first
//! ([`walk`]). A file that reaches its end mark is decoded strictly. One that does not is decoded several
//! times, with different continuations: equal pixels mean that the scans were complete and only the mark is missing.

mod walk;

use image::RgbImage;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use self::walk::Walk;
use super::{DecodeError, DecodeOptions, Stored};
use crate::format::Format;
use crate::memory::PixelMemory;

const END_OF_IMAGE: [u8; 2] = [0xFF, 0xD9];

/// What stands in for missing scan data after the first time, when it is the decoder's zeros. They begin with
/// different codes, as the last code may be in a part of the last block that the image does not show.
const OTHER_CONTINUATIONS: [[u8; 4]; 3] = [
    [0x6B, 0xD3, 0x94, 0x2E],
    [0xB5, 0x5A, 0xC9, 0x37],
    [0xD3, 0x94, 0x2E, 0x6B],
];

const TRUNCATED: DecodeError = DecodeError::Truncated {
    format: Format::Jpeg,
};

pub(super) fn decode(
    bytes: &[u8],
    options: &DecodeOptions,
    memory: &PixelMemory,
) -> Result<Stored, DecodeError> {
    let walk = Walk::over(bytes)?;
    let (width, height) = (u32::from(walk.width), u32::from(walk.height));
    options.limits.check_size(width, height)?;
    // Every 8×8 block costs at least one bit, so a header alone makes nobody allocate.
    let blocks = u64::from(width.div_ceil(8)) * u64::from(height.div_ceil(8));
    if blocks > bytes.len() as u64 * 8 {
        return Err(TRUNCATED);
    }
    let len = width as usize * height as usize * 3;
    let samples = if walk.ended {
        samples(&walk.without_junk(bytes), memory.take(len)).map_err(|error| sort(&error))?
    } else if walk.all_scans_seen() {
        without_end_mark(&walk.without_junk(bytes), len)?
    } else {
        return Err(TRUNCATED);
    };
    let pixels = samples
        .and_then(|samples| RgbImage::from_raw(width, height, samples))
        .ok_or_else(|| DecodeError::corrupt(Format::Jpeg, "its headers disagree about its size"))?;
    Ok(Stored {
        pixels,
        orientation: walk.orientation.unwrap_or(1),
    })
}

/// Decodes a file that lacks its end mark, if that is all it lacks.
fn without_end_mark(bytes: &[u8], len: usize) -> Result<Option<Vec<u8>>, DecodeError> {
    // A trailing 0xFF is half a mark or half a stuffed byte; either way it holds no pixels.
    let kept = bytes.iter().rposition(|b| *b != 0xFF).map_or(0, |i| i + 1);
    let kept = &bytes[..kept];
    let first = [kept, &END_OF_IMAGE].concat();
    let decoded = samples(&first, vec![0; len]).map_err(|_| TRUNCATED)?;
    let complete = OTHER_CONTINUATIONS.iter().all(|continuation| {
        let other = [kept, &continuation.repeat(16), &END_OF_IMAGE].concat();
        samples(&other, vec![0; len]).is_ok_and(|other| other == decoded)
    });
    if complete {
        Ok(decoded)
    } else {
        Err(TRUNCATED)
    }
}

/// The samples, in `buffer`; `None` when there are not as many as fit in it.
///
/// The decoder leaves alone what a damaged file says nothing of, and gives no error. It writes from the top, so the last
/// bytes tell: they are marked before, in two ways one after the other, as an image may end in the first by chance.
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
        // Nothing of an earlier image may show.
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

/// Bytes at an image's end that tell whether it was written to its end: a pixel at least.
const MARKED: usize = 12;

fn sort(error: &DecodeErrors) -> DecodeError {
    match error {
        DecodeErrors::Unsupported(_) => {
            DecodeError::unsupported(Format::Jpeg, "its coding process cannot be decoded")
        }
        DecodeErrors::ExhaustedData => TRUNCATED,
        _ => DecodeError::corrupt(Format::Jpeg, "its scan data cannot be decoded"),
    }
}
