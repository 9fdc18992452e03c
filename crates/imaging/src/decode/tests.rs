mod hostile;
// scripts/setup fetches libjpeg-turbo for this platform only.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod reduced;
mod tiff_chunks;
mod webp_codes;

use super::*;
use crate::encode::{OutputFormat, encode};
use crate::synthetic::files::{exif_block, riff, vp8l, vp8x, with_exif};
use crate::synthetic::{assert_within, fixture, fixture_image, synthetic};
use ::tiff::{encoder::colortype::RGB8, tags::Tag};
use image::codecs::gif::GifEncoder;
use image::{DynamicImage, ImageFormat, Rgba, RgbaImage};
use std::io::Cursor;

fn plain(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    decode(bytes, &DecodeOptions::default())
}

fn error(bytes: &[u8]) -> DecodeError {
    plain(bytes).map(|p| p.pixels.dimensions()).unwrap_err()
}

/// Returns what is wrong with a corrupt file.
fn detail(bytes: &[u8]) -> String {
    match error(bytes) {
        DecodeError::Corrupt { detail, .. } => detail,
        other => panic!("{other:?}"),
    }
}

/// Returns the same image in every format.
fn files(image: &RgbImage) -> Vec<(Format, Vec<u8>)> {
    let encoded = |output| encode(image, output).unwrap();
    let written = |format| {
        let mut file = Cursor::new(Vec::new());
        image.write_to(&mut file, format).unwrap();
        file.into_inner()
    };
    vec![
        (Format::Jpeg, encoded(OutputFormat::default())),
        (Format::Png, encoded(OutputFormat::Png)),
        (Format::Webp, encoded(OutputFormat::Webp)),
        (Format::Gif, written(ImageFormat::Gif)),
        (Format::Bmp, written(ImageFormat::Bmp)),
        (Format::Tiff, written(ImageFormat::Tiff)),
    ]
}

fn png(image: &DynamicImage) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, ImageFormat::Png).unwrap();
    file.into_inner()
}

#[test]
fn every_format_decodes() {
    let source = synthetic(40, 30);
    for (format, file) in files(&source) {
        let decoded = plain(&file).unwrap();
        assert_eq!((decoded.format, decoded.orientation), (format, 1));
        match format {
            Format::Jpeg => {
                let theirs = image::load_from_memory(&file).unwrap().to_rgb8();
                assert_within(&decoded.pixels, &theirs, 0, "jpeg");
            }
            // GIF has 256 colors for 1200 different ones.
            Format::Gif => assert_within(&decoded.pixels, &source, 48, "gif"),
            _ => assert_eq!(decoded.pixels, source, "{format}"),
        }
    }
}

#[test]
fn headers_state_the_size() {
    for (format, file) in files(&synthetic(321, 123)) {
        assert_eq!(stated_size(&file), Some((321, 123)), "{format}");
        for end in 0..file.len().min(64) {
            assert!(matches!(stated_size(&file[..end]), None | Some((321, 123))));
        }
    }
    assert_eq!(stated_size(b"no image"), None);
}

#[test]
fn a_file_with_missing_lines_is_truncated_even_with_an_end_marker() {
    // It states 64 lines and has eight.
    let complete = encode(&synthetic(64, 8), OutputFormat::default()).unwrap();
    let frame = complete
        .windows(2)
        .position(|mark| matches!(mark, [0xFF, 0xC0..=0xC2]))
        .unwrap();
    let mut file = complete[..complete.len() - 2].to_vec();
    file[frame + 5..frame + 7].copy_from_slice(&64u16.to_be_bytes());
    // A comment between the scan and the end marker.
    file.extend([0xFF, 0xFE, 0, 2, 0xFF, 0xD9]);
    assert_eq!(error(&file), DecodeError::truncated(Format::Jpeg));
}

#[test]
fn an_image_may_end_with_the_mark_of_the_buffer() {
    let flat = RgbImage::from_pixel(16, 16, image::Rgb([0x6B; 3]));
    let file = encode(&flat, OutputFormat::Jpeg { quality: 100 }).unwrap();
    assert_eq!(plain(&file).unwrap().pixels, flat);
}

#[test]
fn every_prefix_of_a_file_gives_all_pixels_or_an_error() {
    for (format, file) in files(&synthetic(24, 17)) {
        let complete = plain(&file).unwrap().pixels;
        for end in 0..file.len() {
            match plain(&file[..end]) {
                Ok(decoded) => assert_eq!(decoded.pixels, complete, "{format} cut at {end}"),
                Err(DecodeError::UnsupportedMedia { .. }) => assert!(end < 12, "{format} {end}"),
                Err(DecodeError::Truncated { .. }) => {}
                Err(other) => panic!("{format} cut at {end}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_missing_end_marker_and_trailing_data_are_accepted() {
    for (format, file) in files(&synthetic(40, 30)) {
        let complete = plain(&file).unwrap().pixels;
        let longer = [&file[..], b"\0\0garbage\xFF\xD8\xFF"].concat();
        assert_eq!(
            plain(&longer).unwrap().pixels,
            complete,
            "{format} with garbage"
        );
        let end_mark = match format {
            Format::Jpeg => 2,
            Format::Png => 12,
            Format::Gif => 1,
            _ => continue,
        };
        for cut in 1..=end_mark {
            let shorter = &file[..file.len() - cut];
            assert_eq!(
                plain(shorter).unwrap().pixels,
                complete,
                "{format} without {cut} bytes"
            );
        }
    }
}

#[test]
fn damage_before_the_end_marker_is_an_error() {
    let file = encode(&synthetic(64, 64), OutputFormat::default()).unwrap();
    let middle = file.len() * 2 / 3;
    // In the middle of the scan: a marker that is not allowed there, and a complete segment that could be skipped.
    for damage in [&[0xFF, 0xC5][..], &[0xFF, 0xE1, 0x00, 0x04, 0, 0]] {
        let mut damaged = file.clone();
        damaged[middle..middle + damage.len()].copy_from_slice(damage);
        assert!(plain(&damaged).is_err(), "{damage:x?}");
    }
    // Other bytes before the scan do not hide damage inside the scan.
    let mut damaged = file.clone();
    damaged[middle..middle + 4].copy_from_slice(&[0xFF, 0xE1, 0x00, 0x04]);
    damaged.splice(2..2, [0x00; 8]);
    assert!(plain(&damaged).is_err(), "junk and damage");

    let mut png = encode(&synthetic(64, 64), OutputFormat::Png).unwrap();
    let middle = png.len() / 2;
    png[middle] ^= 0x55;
    assert!(matches!(
        error(&png),
        DecodeError::Corrupt {
            format: Format::Png,
            ..
        }
    ));
}

#[test]
fn cmyk_and_ycck_equal_pillow() {
    for name in ["cmyk", "ycck", "cmyk_plain"] {
        let ours = plain(&fixture(&format!("{name}.jpg"))).unwrap().pixels;
        assert_within(&ours, &fixture_image(&format!("{name}.png")), 6, name);
    }
}

#[test]
fn orientation_is_applied_in_every_format_that_carries_it() {
    let upright = synthetic(24, 16);
    for orientation in 1..=8u8 {
        // The stored image is the inverse transform of the upright one. Only 6 and 8 are not their own inverses.
        let inverse = match orientation {
            6 => 8,
            8 => 6,
            other => other,
        };
        let stored = super::orientation::upright(upright.clone(), inverse);
        let tiff = (Format::Tiff, tiff_with_orientation(&stored, orientation));
        let files = with_exif(&stored, &exif_block(orientation));
        for (format, file) in files.into_iter().chain([tiff]) {
            let turned = plain(&file).unwrap();
            assert_eq!((turned.format, turned.orientation), (format, orientation));
            let levels = if format == Format::Jpeg { 60 } else { 0 };
            assert_within(&turned.pixels, &upright, levels, format.name());
        }
    }
}

fn tiff_with_orientation(image: &RgbImage, orientation: u8) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = ::tiff::encoder::TiffEncoder::new(&mut file).unwrap();
    let (width, height) = image.dimensions();
    let mut page = encoder.new_image::<RGB8>(width, height).unwrap();
    let directory = page.encoder();
    directory
        .write_tag(Tag::Orientation, u16::from(orientation))
        .unwrap();
    page.write_data(image.as_raw()).unwrap();
    file.into_inner()
}

#[test]
fn every_png_variant_decodes() {
    let source = synthetic(20, 14);
    let image = DynamicImage::ImageRgb8(source.clone());
    let decoded = |image: DynamicImage| plain(&png(&image)).unwrap().pixels;
    let deep = DynamicImage::ImageRgb16(image.to_rgb16());
    assert_eq!(decoded(deep), source);
    let gray = DynamicImage::ImageLuma8(image.to_luma8());
    assert_eq!(decoded(gray.clone()), gray.to_rgb8());

    let half = RgbaImage::from_pixel(2, 2, Rgba([200, 100, 0, 0]));
    let options = DecodeOptions {
        background: [1, 2, 3],
        ..DecodeOptions::default()
    };
    let decoded = decode(&png(&DynamicImage::ImageRgba8(half)), &options).unwrap();
    assert!(decoded.pixels.pixels().all(|p| p.0 == [1, 2, 3]));
}

#[test]
fn the_first_frame_of_an_animation_is_decoded() {
    let (first, second) = (synthetic(16, 12), RgbImage::new(16, 12));
    let frame = |image: &RgbImage, x: u8| {
        let size = &vp8x(0, image.width(), image.height())[4..];
        // The place in pairs of pixels, the size, 100 ms, and no blending.
        let head = [&[x / 2, 0, 0, 0, 0, 0][..], size, &[100, 0, 0, 2]].concat();
        [&head[..], &riff(&[(b"VP8L", vp8l(image))])[12..]].concat()
    };
    let webp = riff(&[
        (b"VP8X", vp8x(0x02, 20, 12)),
        (b"ANIM", vec![9, 9, 9, 255, 0, 0]),
        (b"ANMF", frame(&first, 4)),
        (b"ANMF", frame(&second, 0)),
    ]);
    let options = DecodeOptions {
        background: [7, 8, 9],
        ..DecodeOptions::default()
    };
    let decoded = decode(&webp, &options).unwrap().pixels;
    assert_eq!(decoded.dimensions(), (20, 12), "the canvas");
    assert_eq!(
        decoded.get_pixel(0, 5).0,
        [7, 8, 9],
        "the canvas outside the frame"
    );
    assert_eq!(decoded.get_pixel(4, 0), first.get_pixel(0, 0));
    assert_eq!(decoded.get_pixel(19, 11), first.get_pixel(15, 11));

    let mut gif = Cursor::new(Vec::new());
    let mut encoder = GifEncoder::new(&mut gif);
    for shade in [200u8, 10] {
        let frame = RgbaImage::from_pixel(6, 5, Rgba([shade, shade, shade, 255]));
        encoder.encode_frame(image::Frame::new(frame)).unwrap();
    }
    drop(encoder);
    let decoded = plain(&gif.into_inner()).unwrap().pixels;
    assert_eq!(decoded.get_pixel(3, 3).0, [200; 3]);
}

#[test]
fn flags_of_missing_metadata_are_accepted() {
    let source = synthetic(10, 8);
    let webp = riff(&[(b"VP8X", vp8x(0x0C, 10, 8)), (b"VP8L", vp8l(&source))]);
    assert_eq!(plain(&webp).unwrap().pixels, source);
}

#[test]
fn formats_that_are_not_decoded_are_named() {
    let media = |bytes: &[u8]| match error(bytes) {
        DecodeError::UnsupportedMedia { format } => format,
        other => panic!("{other:?}"),
    };
    assert_eq!(media(b"\0\0\0\x1Cftypavif\0\0\0\0"), Some("avif"));
    assert_eq!(media(b""), None);
    assert_eq!(media(b"\0\x01"), None);
    let text = error(b"photo.jpg").to_string();
    assert!(text.contains("curl needs `@`"), "{text}");
    assert_eq!(media("line\n".repeat(100).as_bytes()), Some("text"));
    assert_eq!(
        error(b"%PDF-1.7").to_string(),
        "pdf images are not supported; send jpeg, png, webp, gif, bmp or tiff"
    );
}

#[test]
fn unsupported_variants_are_named() {
    let jpeg = encode(&synthetic(16, 16), OutputFormat::default()).unwrap();
    let sof = jpeg.windows(2).position(|w| w == [0xFF, 0xC0]).unwrap();
    let detail = |at: usize, byte: u8| {
        let mut file = jpeg.clone();
        file[at] = byte;
        match error(&file) {
            DecodeError::Unsupported {
                format: Format::Jpeg,
                detail,
            } => detail,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(detail(sof + 1, 0xC9), "arithmetic coding");
    assert_eq!(detail(sof + 1, 0xC3), "lossless coding");
    assert_eq!(detail(sof + 4, 12), "12 bits a sample, only 8 are decoded");
}
