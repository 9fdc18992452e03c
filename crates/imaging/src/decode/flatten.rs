//! Conversion of any sample type to opaque 8-bit RGB.

use image::{DynamicImage, RgbImage};

/// Composites an image on `background` and converts it to 8 bits.
///
/// 16-bit samples are divided by 257 and rounded. Floating-point samples are clamped to 0..1, scaled and rounded.
/// Compositing is `(c·a + background·(255 − a)) / 255`, rounded, on 8-bit values.
pub(super) fn onto(image: DynamicImage, background: [u8; 3]) -> RgbImage {
    let (width, height) = (image.width(), image.height());
    let mix = |color: [u8; 3], alpha: u8| blend(color, alpha, background);
    let samples: Vec<u8> = match image {
        DynamicImage::ImageRgb8(pixels) => return pixels,
        DynamicImage::ImageLuma8(p) => collect(p.pixels(), |p| [p[0]; 3]),
        DynamicImage::ImageLumaA8(p) => collect(p.pixels(), |p| mix([p[0]; 3], p[1])),
        DynamicImage::ImageRgba8(p) => collect(p.pixels(), |p| mix([p[0], p[1], p[2]], p[3])),
        DynamicImage::ImageLuma16(p) => collect(p.pixels(), |p| [to8(p[0]); 3]),
        DynamicImage::ImageLumaA16(p) => collect(p.pixels(), |p| mix([to8(p[0]); 3], to8(p[1]))),
        DynamicImage::ImageRgb16(p) => collect(p.pixels(), |p| p.0.map(to8)),
        DynamicImage::ImageRgba16(p) => {
            collect(p.pixels(), |p| mix([p[0], p[1], p[2]].map(to8), to8(p[3])))
        }
        DynamicImage::ImageRgb32F(p) => collect(p.pixels(), |p| p.0.map(from_float)),
        DynamicImage::ImageRgba32F(p) => collect(p.pixels(), |p| {
            mix([p[0], p[1], p[2]].map(from_float), from_float(p[3]))
        }),
        // The enum is non-exhaustive; types that are added later are converted by the library.
        other => return other.to_rgb8(),
    };
    RgbImage::from_raw(width, height, samples).unwrap_or_default()
}

fn collect<P>(pixels: impl Iterator<Item = P>, rgb: impl Fn(P) -> [u8; 3]) -> Vec<u8> {
    // Exact capacity: a flat-mapped iterator does not know its length, and growing by doubling would take twice the
    // memory.
    let mut samples = Vec::with_capacity(pixels.size_hint().0 * 3);
    pixels.for_each(|pixel| samples.extend_from_slice(&rgb(pixel)));
    samples
}

fn blend(color: [u8; 3], alpha: u8, background: [u8; 3]) -> [u8; 3] {
    let alpha = u32::from(alpha);
    std::array::from_fn(|c| {
        let mixed = u32::from(color[c]) * alpha + u32::from(background[c]) * (255 - alpha);
        ((mixed + 127) / 255) as u8
    })
}

fn to8(sample: u16) -> u8 {
    ((u32::from(sample) + 128) / 257) as u8
}

fn from_float(sample: f32) -> u8 {
    // The cast of NaN is 0.
    (sample.clamp(0.0, 1.0) * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{ImageBuffer, LumaA, Rgb, Rgba};

    #[test]
    fn transparent_pixels_show_the_background() {
        let pixels = ImageBuffer::from_fn(3, 1, |x, _| {
            Rgba([200u8, 100, 0, [0, 128, 255][x as usize]])
        });
        let flat = onto(DynamicImage::ImageRgba8(pixels), [10, 20, 30]);
        assert_eq!(flat.as_raw(), &[10, 20, 30, 105, 60, 15, 200, 100, 0]);
        let gray = ImageBuffer::from_pixel(1, 1, LumaA([65535u16, 0]));
        assert_eq!(
            onto(DynamicImage::ImageLumaA16(gray), [1, 2, 3]).as_raw(),
            &[1, 2, 3]
        );
    }

    #[test]
    fn samples_of_more_than_8_bits_are_rounded() {
        let deep = ImageBuffer::from_pixel(1, 1, Rgb([0u16, 32768, 65535]));
        assert_eq!(
            onto(DynamicImage::ImageRgb16(deep), [0; 3]).as_raw(),
            &[0, 128, 255]
        );
        let float = ImageBuffer::from_pixel(1, 1, Rgb([f32::NAN, 7.0, 0.5]));
        assert_eq!(
            onto(DynamicImage::ImageRgb32F(float), [0; 3]).as_raw(),
            &[0, 255, 128]
        );
    }
}
