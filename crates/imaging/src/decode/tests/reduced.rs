//! JPEGs that are reduced while they are decoded.

use std::path::Path;

use super::*;
use crate::resize::{Filter, resize};
use crate::synthetic::files::with_segment;
use image::GenericImageView;

fn library() -> TurboJpeg {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../.runtime/turbojpeg")
        .join(SYSTEM_LIBRARY);
    TurboJpeg::load(path).expect("`scripts/setup --tests` fetches libjpeg-turbo")
}

/// Decodes a file to at least `min_side` pixels, into a buffer with other pixels.
fn reduce(bytes: &[u8], min_side: u32) -> Result<Decoded, DecodeError> {
    let library = library();
    let memory = PixelMemory::new(1 << 20);
    for shift in [0, 2, 4, 6] {
        memory.keep(vec![0x55; (200 * 150 * 3) >> shift]);
    }
    let reduction = Reduction {
        library: &library,
        min_side,
    };
    decode_within(bytes, &DecodeOptions::default(), &memory, Some(&reduction))
}

/// Returns an image without fine detail, which a reduction would remove in one way or another.
fn smooth(width: u32, height: u32) -> RgbImage {
    let small = synthetic(width.div_ceil(5), height.div_ceil(5));
    resize(&small, width, height, Filter::Bicubic)
}

fn jpeg(image: &RgbImage) -> Vec<u8> {
    encode(image, OutputFormat::Jpeg { quality: 95 }).unwrap()
}

/// Asserts that an image is the full one, reduced.
fn assert_reduced(reduced: &Decoded, full: &Decoded, what: &str) {
    let (width, height) = full.pixels.dimensions();
    assert_eq!(
        (reduced.size, full.size),
        ((width, height), (width, height)),
        "{what}"
    );
    assert_eq!(reduced.orientation, full.orientation, "{what}");
    let (width, height) = (
        width.div_ceil(reduced.divisor),
        height.div_ceil(reduced.divisor),
    );
    assert_eq!(reduced.pixels.dimensions(), (width, height), "{what}");
    let mean = mean_difference(reduced, &full.pixels);
    assert!(mean < 4.0, "{what}: {mean} levels apart on average");
}

/// Returns the mean difference between a pixel of the reduced image and the mean of its block in the full image, in
/// levels. Leaves out the blocks that the edge cuts.
fn mean_difference(reduced: &Decoded, full: &RgbImage) -> f64 {
    let side = reduced.divisor;
    let (width, height) = (full.width() / side, full.height() / side);
    let mut sum = 0.0;
    for (x, y) in (0..width).flat_map(|x| (0..height).map(move |y| (x, y))) {
        let block = full.view(x * side, y * side, side, side);
        for channel in 0..3 {
            let levels = block
                .pixels()
                .map(|(_, _, pixel)| f64::from(pixel[channel]));
            let mean = levels.sum::<f64>() / f64::from(side * side);
            sum += (mean - f64::from(reduced.pixels.get_pixel(x, y)[channel])).abs();
        }
    }
    sum / f64::from(width * height * 3)
}

#[test]
fn the_longer_side_decides_how_far_an_image_is_reduced() {
    let file = jpeg(&smooth(160, 120));
    let sides = [0, 20, 21, 40, 41, 80, 81, u32::MAX];
    let divisors = sides.map(|min_side| reduce(&file, min_side).unwrap().divisor);
    assert_eq!(divisors, [8, 8, 4, 4, 2, 2, 1, 1]);
}

#[test]
fn a_reduced_image_is_the_full_one_in_less_detail() {
    let colors = jpeg(&smooth(201, 147));
    let mut gray = Cursor::new(Vec::new());
    DynamicImage::ImageLuma8(DynamicImage::ImageRgb8(smooth(200, 150)).to_luma8())
        .write_to(&mut gray, image::ImageFormat::Jpeg)
        .unwrap();
    let files = [
        ("sides that are no multiple of a block", colors),
        ("gray", gray.into_inner()),
        ("progressive", fixture("progressive.jpg")),
        ("restart markers", fixture("restarts.jpg")),
    ];
    for (what, file) in files {
        let full = plain(&file).unwrap();
        for (min_side, divisor) in [(100, 2), (50, 4), (25, 8)] {
            let reduced = reduce(&file, min_side).unwrap();
            assert_eq!(reduced.divisor, divisor, "{what}");
            assert_reduced(&reduced, &full, what);
        }
    }
}

#[test]
fn a_reduced_image_is_upright() {
    for (side, other_side) in [(96, 64), (98, 66), (97, 67)] {
        let file = jpeg(&smooth(side, other_side));
        for orientation in 1..=8 {
            let exif = [&b"Exif\0\0"[..], &exif_block(orientation)].concat();
            let file = with_segment(&file, 0xE1, &exif);
            let reduced = reduce(&file, 24).unwrap();
            // A mirrored image is reduced only as far as its pixels stay at their places.
            let is_mirrored = ![1, 5].contains(&orientation);
            let divisor = match side {
                98 if is_mirrored => 2,
                97 if is_mirrored => 1,
                _ => 4,
            };
            assert_eq!(
                (reduced.divisor, reduced.orientation),
                (divisor, orientation)
            );
            assert_reduced(&reduced, &plain(&file).unwrap(), "turned");
        }
    }
}

/// Returns a file whose components have other ids in its frame header and in its scan header.
fn with_component_ids(mut file: Vec<u8>, ids: [u8; 3]) -> Vec<u8> {
    for (marker, first, step) in [(0xC0, 10, 3), (0xDA, 5, 2)] {
        let at = file
            .windows(2)
            .position(|pair| pair == [0xFF, marker])
            .unwrap();
        for (index, id) in ids.into_iter().enumerate() {
            file[at + first + index * step] = id;
        }
    }
    file
}

/// Asserts that a file has the same result as without a reduction.
fn assert_full(file: &[u8], what: &str) {
    let (reduced, full) = (reduce(file, 8), plain(file));
    let pixels = |decoded: Result<Decoded, DecodeError>| {
        decoded.map(|decoded| (decoded.divisor, decoded.size, decoded.pixels))
    };
    assert!(pixels(reduced) == pixels(full), "{what}");
}

#[test]
fn files_that_the_library_cannot_reduce_are_decoded_in_full() {
    for name in ["cmyk.jpg", "ycck.jpg", "cmyk_plain.jpg"] {
        assert_full(&fixture(name), name);
    }
    for (format, file) in files(&smooth(64, 48)) {
        if format != Format::Jpeg {
            assert_full(&file, &format.to_string());
        }
    }
    let file = jpeg(&smooth(64, 48));
    assert_full(&file[..file.len() - 2], "no end marker");
    let no_transform = b"Adobe\0\x64\0\0\0\0\0";
    let transformed = with_segment(&file, 0xEE, no_transform);
    assert_full(&transformed, "Adobe's RGB");
    assert_full(&with_component_ids(file, *b"RGB"), "components R, G, B");
    for (scans, is_reduced) in [(32, true), (33, false)] {
        let reduced = reduce(&fixture(&format!("scans_{scans}.jpg")), 2).unwrap();
        assert_eq!(reduced.divisor > 1, is_reduced, "{scans} scans");
    }
}

#[test]
fn truncated_files_have_the_same_error() {
    let size = |decoded: Result<Decoded, DecodeError>| decoded.map(|decoded| decoded.size);
    for file in [jpeg(&smooth(64, 48)), fixture("progressive.jpg")] {
        for length in (0..file.len()).step_by(7) {
            let part = &file[..length];
            for file in [part, &[part, &[0xFF, 0xD9]].concat()] {
                assert_eq!(size(reduce(file, 8)), size(plain(file)), "{length} bytes");
            }
        }
    }
}

#[test]
fn a_file_that_is_no_library_is_refused() {
    assert!(TurboJpeg::load("/nonexistent/libturbojpeg.so").is_err());
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    assert!(TurboJpeg::load(other).is_err());
}
