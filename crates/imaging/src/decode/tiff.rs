//! TIFF. The first page is decoded.

mod chunks;

use std::io::Cursor;

use image::ImageDecoder;
use image::codecs::tiff::TiffDecoder;

use self::chunks::Chunks;
use super::{DecodeError, DecodeOptions, Stored, library_limits, read};
use crate::format::Format;

/// Above the compression ratio of every method of TIFF for 8-bit samples. The highest is that of LZW, about 2,700.
const COMPRESSION_RATIO: u64 = 4096;

pub(super) fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<Stored, DecodeError> {
    let limits = &options.limits;
    let convert_error = |error| DecodeError::from_image(Format::Tiff, limits, &error);
    let mut decoder = TiffDecoder::new(Cursor::new(bytes)).map_err(convert_error)?;
    let (width, height) = decoder.dimensions();
    limits.check_size(width, height)?;
    let bilevel = decoder.original_color_type() == image::ExtendedColorType::L1;
    if !bilevel && decoder.total_bytes() / COMPRESSION_RATIO > bytes.len() as u64 {
        return Err(DecodeError::truncated(Format::Tiff));
    }
    Chunks::read(bytes)
        .map_err(|_| DecodeError::corrupt(Format::Tiff, "its directory cannot be read"))?
        .check(bytes, decoder.total_bytes(), limits)?;
    decoder
        .set_limits(library_limits(limits))
        .map_err(convert_error)?;
    let orientation = decoder.orientation().map_or(1, |o| o.to_exif());
    let pixels = read(Ok(decoder), Format::Tiff, options)?;
    Ok(Stored::full(pixels, orientation))
}
