//! EXIF blocks.

use std::{io::Cursor, sync::LazyLock};

use facescan_imaging::{
    decode::{DecodeOptions, decode},
    encode::{OutputFormat, encode},
    synthetic::synthetic,
};
use image::{ExtendedColorType, ImageEncoder, RgbImage, codecs::png::PngEncoder};

/// The prefix of the block in a JPEG file.
const PREFIX: &[u8] = b"Exif\0\0";

/// The longest block that fits into a segment of a JPEG file.
const MAX_BLOCK: usize = 65_533 - PREFIX.len();

static IMAGE: LazyLock<RgbImage> = LazyLock::new(|| synthetic(8, 5));
static JPEG: LazyLock<Vec<u8>> = LazyLock::new(|| encoded(OutputFormat::default()));
static WEBP: LazyLock<Vec<u8>> = LazyLock::new(|| encoded(OutputFormat::Webp));

/// A block in the metadata of an image never makes the image unreadable, and three formats find the same orientation in
/// it.
pub fn exif(block: &[u8]) {
    let block = &block[..block.len().min(MAX_BLOCK)];
    let found = [
        orientation(&jpeg(block)),
        orientation(&webp(block)),
        orientation(&png(block)),
    ];
    // Only the block of a JPEG file has the prefix. Other formats accept it too.
    if !block.starts_with(PREFIX) {
        assert_eq!(found, [found[0]; 3], "jpeg, webp and png disagree");
    }
}

/// Decodes an image, and returns its orientation.
fn orientation(file: &[u8]) -> u8 {
    let decoded = decode(file, &DecodeOptions::default());
    let decoded = decoded.unwrap_or_else(|error| panic!("metadata broke an image: {error}"));
    let (width, height) = IMAGE.dimensions();
    let expected = match decoded.orientation {
        1..=4 => (width, height),
        5..=8 => (height, width),
        other => panic!("an orientation of {other}"),
    };
    assert_eq!(decoded.pixels.dimensions(), expected);
    decoded.orientation
}

fn encoded(format: OutputFormat) -> Vec<u8> {
    encode(&IMAGE, format).expect("a small image can be encoded")
}

fn jpeg(block: &[u8]) -> Vec<u8> {
    let length = (2 + PREFIX.len() + block.len()) as u16;
    let (start, rest) = JPEG.split_at(2);
    [
        start,
        b"\xFF\xE1",
        &length.to_be_bytes(),
        PREFIX,
        block,
        rest,
    ]
    .concat()
}

fn png(block: &[u8]) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = PngEncoder::new(&mut file);
    let (width, height) = IMAGE.dimensions();
    encoder
        .set_exif_metadata(block.to_vec())
        .map_err(|error| error.to_string())
        .and_then(|()| {
            encoder
                .write_image(IMAGE.as_raw(), width, height, ExtendedColorType::Rgb8)
                .map_err(|error| error.to_string())
        })
        .expect("a small image can be encoded");
    file.into_inner()
}

/// Returns an extended WebP file: its header, the frame and the block.
fn webp(block: &[u8]) -> Vec<u8> {
    const EXIF_FLAG: u8 = 0x08;
    let (width, height) = IMAGE.dimensions();
    let side = |side: u32| (side - 1).to_le_bytes();
    let header = [
        &[EXIF_FLAG, 0, 0, 0][..],
        &side(width)[..3],
        &side(height)[..3],
    ]
    .concat();
    // The simple file is a RIFF header of 12 bytes and the chunk of the frame.
    let body = [
        b"WEBP",
        &chunk(b"VP8X", &header)[..],
        &WEBP[12..],
        &chunk(b"EXIF", block),
    ]
    .concat();
    chunk(b"RIFF", &body)
}

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let padding = vec![0; data.len() % 2];
    [name, &(data.len() as u32).to_le_bytes()[..], data, &padding].concat()
}
