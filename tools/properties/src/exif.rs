//! EXIF blocks.

use facescan_imaging::{
    decode::{DecodeOptions, decode},
    synthetic::{files::with_exif, synthetic},
};

/// The prefix of the block in a JPEG file.
const PREFIX: &[u8] = b"Exif\0\0";

/// The longest block that fits into a segment of a JPEG file.
const MAX_BLOCK: usize = 65_533 - PREFIX.len();

/// The width and the height of the stored image.
const SIZE: (u32, u32) = (8, 5);

/// A block in the metadata of an image never makes the image unreadable, and three formats find the same orientation in
/// it.
pub fn exif(block: &[u8]) {
    let block = &block[..block.len().min(MAX_BLOCK)];
    let files = with_exif(&synthetic(SIZE.0, SIZE.1), block);
    let found = files.map(|(_, file)| orientation(&file));
    // Only the block of a JPEG file has the prefix. Other formats accept it too.
    if !block.starts_with(PREFIX) {
        assert_eq!(found, [found[0]; 3], "jpeg, png and webp disagree");
    }
}

/// Decodes an image, and returns its orientation.
fn orientation(file: &[u8]) -> u8 {
    let decoded = decode(file, &DecodeOptions::default());
    let decoded = decoded.unwrap_or_else(|error| panic!("metadata broke an image: {error}"));
    let expected = match decoded.orientation {
        1..=4 => SIZE,
        5..=8 => (SIZE.1, SIZE.0),
        other => panic!("an orientation of {other}"),
    };
    assert_eq!(decoded.pixels.dimensions(), expected);
    decoded.orientation
}
