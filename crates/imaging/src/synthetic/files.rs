//! Files that the encoders of this crate do not write: with metadata, and with the chunks that a test chooses.

use std::io::Cursor;

use image::{ExtendedColorType, ImageEncoder, RgbImage, codecs::png::PngEncoder};

use crate::{
    encode::{OutputFormat, encode},
    format::Format,
};

/// Returns an EXIF block with an orientation.
pub fn exif_block(orientation: u8) -> Vec<u8> {
    let mut block = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    block.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    block
}

/// Returns files of an image with an EXIF block: a JPEG of the highest quality, a PNG and a lossless WebP.
pub fn with_exif(image: &RgbImage, block: &[u8]) -> [(Format, Vec<u8>); 3] {
    let (width, height) = image.dimensions();
    let jpeg = encoded(image, OutputFormat::Jpeg { quality: 100 });
    let segment = [&b"Exif\0\0"[..], block].concat();
    let mut png = Cursor::new(Vec::new());
    let mut encoder = PngEncoder::new(&mut png);
    encoder
        .set_exif_metadata(block.to_vec())
        .expect("a PNG can have metadata");
    encoder
        .write_image(image.as_raw(), width, height, ExtendedColorType::Rgb8)
        .expect("a small image can be encoded");
    let webp = riff(&[
        (b"VP8X", vp8x(0x08, width, height)),
        (b"VP8L", vp8l(image)),
        (b"EXIF", block.to_vec()),
    ]);
    [
        (Format::Jpeg, with_segment(&jpeg, 0xE1, &segment)),
        (Format::Png, png.into_inner()),
        (Format::Webp, webp),
    ]
}

fn encoded(image: &RgbImage, output: OutputFormat) -> Vec<u8> {
    encode(image, output).expect("a small image can be encoded")
}

/// Returns a JPEG with an additional segment after its start marker.
pub(crate) fn with_segment(jpeg: &[u8], marker: u8, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u16 + 2).to_be_bytes();
    [&jpeg[..2], &[0xFF, marker], &length, data, &jpeg[2..]].concat()
}

/// Returns a WebP file with these chunks.
pub(crate) fn riff(chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut body = b"WEBP".to_vec();
    for (kind, data) in chunks {
        body.extend(*kind);
        body.extend((data.len() as u32).to_le_bytes());
        body.extend(data);
        body.extend(vec![0; data.len() % 2]);
    }
    [b"RIFF", &(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// Returns the bitstream of a simple lossless WebP, whose header and the head of its only chunk have 20 bytes.
pub(crate) fn vp8l(image: &RgbImage) -> Vec<u8> {
    let file = encoded(image, OutputFormat::Webp);
    let (head, data) = file.split_at(20);
    let length = head.last_chunk().copied().map_or(0, u32::from_le_bytes);
    data[..length as usize].to_vec()
}

/// Returns the header of an extended WebP.
pub(crate) fn vp8x(flags: u8, width: u32, height: u32) -> Vec<u8> {
    let side = |v: u32| (v - 1).to_le_bytes()[..3].to_vec();
    [vec![flags, 0, 0, 0], side(width), side(height)].concat()
}
