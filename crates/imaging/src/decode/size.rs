//! What a file says before it is decoded: its size in pixels, and how often a decoder goes over them.

use std::io::Cursor;

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
}
