//! Small images of each format, and files whose headers state too much.

use std::io::{Cursor, Result};

use facescan_imaging::{
    encode::{OutputFormat, encode},
    synthetic::synthetic,
};
use image::{
    DynamicImage, ExtendedColorType, Frame, ImageEncoder, ImageFormat, Rgba, RgbaImage,
    codecs::{gif::GifEncoder, tiff::TiffEncoder},
};

use super::Folder;

pub fn write(folder: &Folder) -> Result<()> {
    plain(folder)?;
    hostile(folder)?;
    exif(folder)?;
    let npy = |name, bytes: &[u8]| folder.write("npy", name, bytes);
    npy("scalar", &[0, 64, 0])?;
    npy("vector", &[1, 128, 0, 0, 0, 0, 0, 0, 0, 2, 0])?;
    npy(
        "largest",
        &[[3, 0xFF, 0xFF].as_slice(), &[0xFF; 64 * 8]].concat(),
    )
}

fn as_format(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let written = image.write_to(&mut file, format);
    written.expect("a small image can be encoded");
    file.into_inner()
}

/// Images that decode: each format, and the variants with code of their own.
fn plain(folder: &Folder) -> Result<()> {
    let rgb = DynamicImage::ImageRgb8(synthetic(24, 17));
    let grey = DynamicImage::ImageLuma8(rgb.to_luma8());
    let rgba = DynamicImage::ImageRgba8(RgbaImage::from_fn(9, 7, |x, y| {
        Rgba([(x * 28) as u8, (y * 36) as u8, 90, (x * y * 4) as u8])
    }));
    let deep = DynamicImage::ImageRgba16(rgba.to_rgba16());
    let write = |name: &str, content: Vec<u8>| folder.write("decode", name, content);
    for (name, format) in [
        ("plain.jpg", ImageFormat::Jpeg),
        ("plain.png", ImageFormat::Png),
        ("plain.webp", ImageFormat::WebP),
        ("plain.gif", ImageFormat::Gif),
        ("plain.bmp", ImageFormat::Bmp),
        ("plain.tiff", ImageFormat::Tiff),
    ] {
        write(name, as_format(&rgb, format))?;
    }
    write("grey.jpg", as_format(&grey, ImageFormat::Jpeg))?;
    write("grey.png", as_format(&grey, ImageFormat::Png))?;
    write("alpha.png", as_format(&rgba, ImageFormat::Png))?;
    write("alpha.webp", as_format(&rgba, ImageFormat::WebP))?;
    write("alpha.bmp", as_format(&rgba, ImageFormat::Bmp))?;
    write("deep.png", as_format(&deep, ImageFormat::Png))?;
    write("deep.tiff", as_format(&deep, ImageFormat::Tiff))?;
    let mut jpeg = as_format(&rgb, ImageFormat::Jpeg);
    jpeg.truncate(jpeg.len() - 2);
    write("no-end-marker.jpg", jpeg)?;
    let lossless = encode(&synthetic(8, 5), OutputFormat::Webp).expect("it can be encoded");
    write("animated.webp", animated_webp(&lossless))
}

/// Headers that state more than the file has.
fn hostile(folder: &Folder) -> Result<()> {
    let write = |name: &str, content: Vec<u8>| folder.write("decode", name, content);
    let mut png = b"\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR".to_vec();
    png.extend([u32::MAX.to_be_bytes(), (1u32 << 29).to_be_bytes()].concat());
    png.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
    png.extend(b"\0\0\0\x04IDAT\x78\x9C\x63\0\0\0\0\0\0\0\0\0IEND\xAE\x42\x60\x82");
    write("huge.png", png)?;
    // 12336 × 12336 pixels in 47 bytes. The text "00" is 12336 as a number.
    let frame = [b"\xFF\xC0\0\x0B\x08", &b"0000"[..], b"\x01\x01\x11\0"].concat();
    let scan = [b"\xFF\xDA\0\x08\x01\x01\0\0\x3F\0", &[0x30; 20][..]].concat();
    write(
        "huge.jpg",
        [b"\xFF\xD8", &frame[..], &scan, b"\xFF\xD9"].concat(),
    )?;
    let mut gif = Vec::new();
    let mut encoder = GifEncoder::new(&mut gif);
    for shade in 0..200u8 {
        let frame = RgbaImage::from_pixel(2, 2, Rgba([shade, shade, shade, 255]));
        let written = encoder.encode_frame(Frame::new(frame));
        written.expect("a small frame can be encoded");
    }
    drop(encoder);
    write("many-frames.gif", gif)?;
    let mut gif = b"GIF89a\xFF\xFF\xFF\xFF\x80\0\0\0\0\0\xFF\xFF\xFF".to_vec();
    gif.extend(b"\x2C\0\0\0\0\xFF\xFF\xFF\xFF\0\x02\x02\x44\x01\0\x3B");
    write("huge.gif", gif)?;
    write(
        "huge-canvas.webp",
        webp(&[
            (b"VP8X", vec![2, 0, 0, 0, 255, 255, 255, 255, 255, 255]),
            (b"ANIM", vec![0; 6]),
            (b"ANMF", vec![0; 24]),
        ]),
    )?;
    write(
        "huge-frame.webp",
        webp(&[(b"VP8L", vec![0x2F, 0xFF, 0xFF, 0xFF, 0x0F, 0, 0, 0])]),
    )?;
    let mut tiff = b"II*\0\x08\0\0\0\xFF\xFF".to_vec();
    for tag in 0x100u16..0x118 {
        tiff.extend(tag.to_le_bytes());
        tiff.extend([4, 0, 0xFF, 0xFF, 0xFF, 0x7F, 0xF0, 0xFF, 0xFF, 0x7F]);
    }
    write("huge-directory.tiff", tiff)?;
    let mut tiff = b"II*\0\x08\0\0\0\x01\0".to_vec();
    tiff.extend([0x12, 1, 3, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0]);
    write("endless-directory.tiff", tiff)?;
    let mut big = b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0".to_vec();
    big.extend(u64::MAX.to_le_bytes());
    write("huge-directory.bigtiff", big)?;
    let mut bmp = b"BM\xFF\xFF\xFF\xFF\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    bmp.extend([0, 64, 0, 0, 0, 23, 0, 0, 1, 0, 8, 0, 1, 0, 0, 0]);
    bmp.extend([0; 20]);
    bmp.extend([255, 7, 0, 1]);
    write("run-length.bmp", bmp)
}

/// EXIF blocks, good and broken.
fn exif(folder: &Folder) -> Result<()> {
    let write = |name: &str, content: Vec<u8>| folder.write("exif", name, content);
    let entry = b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
    let little = [b"II*\0\x08\0\0\0\x01\0", &entry[..], &[0; 4]].concat();
    write("little", little.clone())?;
    write("prefixed", [b"Exif\0\0", &little[..]].concat())?;
    write(
        "big",
        b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0".to_vec(),
    )?;
    write("far-directory", b"II*\0\xFF\xFF\xFF\xFF\x01\0".to_vec())?;
    write(
        "many-entries",
        [b"MM\0*\0\0\0\x08\xFF\xFF", &[0; 24][..]].concat(),
    )?;
    let mut file = Cursor::new(Vec::new());
    let image = synthetic(3, 2);
    let written =
        TiffEncoder::new(&mut file).write_image(image.as_raw(), 3, 2, ExtendedColorType::Rgb8);
    written.expect("a small image can be encoded");
    write("tiff", file.into_inner())
}

fn webp(chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut body = b"WEBP".to_vec();
    for (name, data) in chunks {
        body.extend(chunk(name, data));
    }
    chunk(b"RIFF", &body)
}

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let padding = vec![0; data.len() % 2];
    [name, &(data.len() as u32).to_le_bytes()[..], data, &padding].concat()
}

/// Returns an animation of two frames of 8 × 5 pixels on a canvas of 12 × 6.
fn animated_webp(lossless: &[u8]) -> Vec<u8> {
    let frame = |x: u8| {
        let head = [x, 0, 0, 0, 0, 0, 7, 0, 0, 4, 0, 0, 100, 0, 0, 2];
        (b"ANMF", [&head[..], &lossless[12..]].concat())
    };
    webp(&[
        (b"VP8X", vec![2, 0, 0, 0, 11, 0, 0, 5, 0, 0]),
        (b"ANIM", vec![9, 9, 9, 255, 0, 0]),
        frame(1),
        frame(0),
    ])
}
