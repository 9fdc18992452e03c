//! Resizing of 8-bit RGB, by named definitions. All use half-pixel centres.

mod area;
pub mod axis;
mod bicubic;
pub(super) mod point;
pub(super) mod triangle;
pub(super) mod view;
mod window;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use image::RgbImage;

use view::View;

/// Bytes of a pixel in a picture.
const RGB: usize = 3;

/// A pixel of a resized line: red, green, blue and something, so that four bytes at a time may be read and written.
pub(super) type Pixel = [u8; 4];

/// How samples are weighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Bilinear, the triangle widened by the scale when shrinking: Pillow's `BILINEAR`, torchvision with antialias.
    Bilinear,
    /// Bilinear between the four nearest samples, whatever the scale: OpenCV's `INTER_LINEAR`.
    BilinearPoint,
    /// Bicubic with a = −0.5, widened when shrinking: Pillow's `BICUBIC`.
    Bicubic,
    /// The mean over the area that a pixel covers: OpenCV's `INTER_AREA`. An axis that grows repeats samples.
    Area,
}

/// Resizes to exactly `width` × `height`, without regard to the aspect. A side of 0 becomes 1; a picture without
/// pixels becomes black.
pub fn resize(picture: &RgbImage, width: u32, height: u32, filter: Filter) -> RgbImage {
    let (width, height) = (width.max(1), height.max(1));
    if picture.dimensions() == (width, height) {
        return picture.clone();
    }
    if picture.width() == 0 || picture.height() == 0 {
        return RgbImage::new(width, height);
    }
    let view = View::whole(picture.dimensions(), (width, height));
    match filter {
        Filter::Bilinear => bilinear(picture, &view),
        Filter::Bicubic => bicubic::resize(picture, width, height),
        Filter::BilinearPoint => point::resize(picture, &view),
        Filter::Area => area::resize(picture, width, height),
    }
}

/// A view of `picture` by [`Filter::Bilinear`].
pub(super) fn bilinear(picture: &RgbImage, view: &View) -> RgbImage {
    convolve(picture, view).unwrap_or_else(|| point::resize(picture, view))
}

/// `None` when the library refuses the pictures, which it does for sizes that do not fit their bytes.
fn convolve(picture: &RgbImage, view: &View) -> Option<RgbImage> {
    let (width, height) = view.size();
    let source = ImageRef::new(
        picture.width(),
        picture.height(),
        picture.as_raw(),
        PixelType::U8x3,
    )
    .ok()?;
    let mut target = Image::new(width, height, PixelType::U8x3);
    let ((left, across), (top, down)) = (view.columns.span(), view.rows.span());
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
        .crop(left, top, across, down);
    Resizer::new().resize(&source, &mut target, &options).ok()?;
    RgbImage::from_raw(width, height, target.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{assert_within, picture, synthetic};

    #[test]
    fn every_filter_equals_its_reference() {
        let source = synthetic(97, 61);
        let cases = [
            ("bilinear", Filter::Bilinear, 1),
            ("bilinear_point", Filter::BilinearPoint, 0),
            ("bicubic", Filter::Bicubic, 0),
        ];
        for (width, height) in [(40, 25), (150, 100)] {
            for (name, filter, levels) in cases {
                let name = format!("{name}_{width}.png");
                let ours = resize(&source, width, height, filter);
                assert_within(&ours, &picture(&name), levels, &name);
            }
        }
        let ours = resize(&source, 40, 25, Filter::Area);
        assert_within(&ours, &picture("area_40.png"), 1, "area");
    }

    #[test]
    fn sizes_without_pixels_are_harmless() {
        let source = synthetic(5, 4);
        for filter in [
            Filter::Bilinear,
            Filter::BilinearPoint,
            Filter::Bicubic,
            Filter::Area,
        ] {
            assert_eq!(resize(&source, 0, 0, filter).dimensions(), (1, 1));
            assert_eq!(resize(&source, 9, 1, filter).dimensions(), (9, 1));
            assert_eq!(resize(&source, 5, 4, filter), source);
            let none = resize(&RgbImage::new(0, 7), 2, 2, filter);
            assert_eq!(none.as_raw(), &[0; 12]);
        }
    }
}
