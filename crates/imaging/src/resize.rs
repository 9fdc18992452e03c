//! Resizing of 8-bit RGB images by named definitions. All use half-pixel centers.

mod area;
pub mod axis;
mod bicubic;
pub(crate) mod triangle;
pub(crate) mod two_tap;
pub(crate) mod view;
mod window;

#[cfg(test)]
mod kernel_forms;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer, pixels::U8x3};
use image::RgbImage;

use super::{checkpoint::passed, crop::copy};
use view::{Axis, View};

/// Bytes of a pixel.
const RGB: usize = 3;

/// The samples that the resize library reads between two checkpoints, where a written sample counts as [`PER_WRITTEN`].
/// Each strip repeats a little work of the one before it, so smaller strips would be slower.
const CONVOLVED: usize = 1 << 23;

/// The weight of a written sample. With a weight of 1, a strip of an enlarged image took 12 to 38 ms, because the system
/// clears each page of a new image when it is written first.
const PER_WRITTEN: usize = 6;

/// A pixel of a resized row: red, green, blue and an unused byte, so that four bytes are read and written at a time.
pub(super) type Pixel = [u8; 4];

/// The filter of a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Bilinear with antialias, the triangle filter widened by the scale when shrinking: Pillow's `BILINEAR`.
    Bilinear,
    /// Bilinear between the four nearest samples at any scale, without antialias: OpenCV's `INTER_LINEAR`.
    BilinearTwoTap,
    /// Bicubic with a = −0.5, widened when shrinking: Pillow's `BICUBIC`.
    Bicubic,
    /// The mean over the area that a pixel covers: OpenCV's `INTER_AREA`. Enlarging repeats samples.
    Area,
}

/// Resizes to exactly `width` × `height` pixels; the aspect ratio may change. A side of 0 counts as 1. An image without
/// pixels becomes black.
pub fn resize(image: &RgbImage, width: u32, height: u32, filter: Filter) -> RgbImage {
    let (width, height) = (width.max(1), height.max(1));
    if image.dimensions() == (width, height) {
        return copy(image);
    }
    if image.width() == 0 || image.height() == 0 {
        return RgbImage::new(width, height);
    }
    let view = View::full(image.dimensions(), (width, height));
    match filter {
        Filter::Bilinear => bilinear(image, &view),
        Filter::Bicubic => bicubic::resize(image, width, height),
        Filter::BilinearTwoTap => two_tap::resize(image, &view),
        Filter::Area => area::resize(image, width, height),
    }
}

/// Returns a view of `image` by [`Filter::Bilinear`].
pub(super) fn bilinear(image: &RgbImage, view: &View) -> RgbImage {
    convolve(image, view).unwrap_or_else(|| two_tap::resize(image, view))
}

/// Resizes like [`bilinear`], with the resize library. Returns `None` if the library refuses the image because a size
/// does not match the number of bytes.
fn convolve(image: &RgbImage, view: &View) -> Option<RgbImage> {
    let (width, height) = view.size();
    let source =
        TypedImageRef::<U8x3>::from_buffer(image.width(), image.height(), image.as_raw()).ok()?;
    let mut resized = RgbImage::new(width, height);
    let (left, across) = view.columns.source_span();
    let mut resizer = Resizer::new();
    let stride = width as usize * RGB;
    let work = work_of_row(image, view);
    let cost = work + (PER_WRITTEN - 1) * stride;
    let rows = u32::try_from(CONVOLVED / cost.max(1))
        .unwrap_or(u32::MAX)
        .max(1);
    let strips = resized.chunks_mut((rows as usize * stride).max(1));
    let starts = view.rows.range.clone().step_by(rows as usize);
    for (strip, start) in strips.zip(starts) {
        let height = (strip.len() / stride) as u32;
        let mut target = TypedImage::<U8x3>::from_buffer(width, height, strip).ok()?;
        let rows = Axis {
            range: start..start + height,
            ..view.rows.clone()
        };
        let (top, down) = rows.source_span();
        let options = ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
            .crop(left, top, across, down);
        // The images are typed, so that the compiler builds the library's code for one type of pixel and not for
        // thirteen.
        resizer.resize_typed(&source, &mut target, &options).ok()?;
        passed(height as usize * work);
    }
    Some(resized)
}

/// Returns the samples that a row of a view reads and writes.
pub(super) fn work_of_row(image: &RgbImage, view: &View) -> usize {
    let read = image.width() as usize * RGB * view.rows.scale().ceil() as usize;
    read + view.size().0 as usize * RGB
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checkpoint::testing::checkpoints_of,
        synthetic::{assert_within, fixture_image, synthetic},
    };

    const FILTERS: [Filter; 4] = [
        Filter::Bilinear,
        Filter::BilinearTwoTap,
        Filter::Bicubic,
        Filter::Area,
    ];

    #[test]
    fn every_filter_equals_its_reference() {
        let source = synthetic(97, 61);
        let cases = [
            ("bilinear", Filter::Bilinear, 1),
            ("bilinear_point", Filter::BilinearTwoTap, 0),
            ("bicubic", Filter::Bicubic, 0),
        ];
        for (width, height) in [(40, 25), (150, 100)] {
            for (name, filter, levels) in cases {
                let name = format!("{name}_{width}.png");
                let ours = resize(&source, width, height, filter);
                assert_within(&ours, &fixture_image(&name), levels, &name);
            }
        }
        let ours = resize(&source, 40, 25, Filter::Area);
        assert_within(&ours, &fixture_image("area_40.png"), 1, "area");
    }

    #[test]
    fn sizes_without_pixels_do_not_panic() {
        let source = synthetic(5, 4);
        for filter in FILTERS {
            assert_eq!(resize(&source, 0, 0, filter).dimensions(), (1, 1));
            assert_eq!(resize(&source, 9, 1, filter).dimensions(), (9, 1));
            assert_eq!(resize(&source, 5, 4, filter), source);
            let empty = resize(&RgbImage::new(0, 7), 2, 2, filter);
            assert_eq!(empty.as_raw(), &[0; 12]);
        }
    }

    #[test]
    fn an_enlarged_image_passes_a_checkpoint_for_each_strip_that_it_writes() {
        let source = synthetic(40, 30);
        let (width, height) = (2_000, 1_500);
        let written = width as usize * height as usize * RGB;
        for filter in FILTERS {
            let passed = checkpoints_of(|| drop(resize(&source, width, height, filter)));
            let most = CONVOLVED / PER_WRITTEN;
            assert!(passed * most >= written, "{filter:?}: {passed}");
        }
    }
}
