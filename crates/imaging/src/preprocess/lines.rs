//! The lines of a resized image, by profile.

use image::RgbImage;
use multiversion::multiversion;

use super::{Profile, RGB};
use crate::{
    checkpoint::passed,
    resize::{
        Pixel, bilinear, triangle,
        two_tap::{self, vertical},
        view::View,
    },
};

/// A pixel: red, green, blue and an unused value, in levels of 0..=255.
pub(super) type Levels = [f32; 4];

/// Calls `each` with the lines of a view of `image`, from the top. A line may have more pixels than the view is wide.
pub(super) fn for_each(
    profile: Profile,
    image: &RgbImage,
    view: &View,
    mut each: impl FnMut(&[Levels]),
) {
    match profile {
        Profile::Torchvision => {
            let mut lines = triangle::rounded(image, view);
            let mut levels = Vec::new();
            while let Some(line) = lines.next() {
                levels.resize(line.len(), Levels::default());
                bytes_to_levels(line, &mut levels);
                each(&levels);
            }
        }
        Profile::Jax => {
            let mut lines = triangle::unrounded(image, view);
            while let Some(line) = lines.next() {
                each(line.as_flattened().as_chunks().0);
            }
        }
        Profile::Pil => {
            let scaled = bilinear(image, view);
            let mut levels = vec![Levels::default(); scaled.width() as usize];
            for line in scaled.chunks_exact(levels.len() * RGB) {
                rgb_to_levels(line, &mut levels);
                passed(line.len());
                each(&levels);
            }
        }
        Profile::Opencv => {
            let mut lines = two_tap::row_pairs(image, view);
            let mut pixels = lines.pixel_buffer();
            let mut levels = vec![Levels::default(); pixels.as_flattened().len()];
            while let Some(pair) = lines.next() {
                vertical::blend(&pair, &mut pixels);
                bytes_to_levels(pixels.as_flattened(), &mut levels);
                each(&levels);
            }
        }
    }
}

/// Converts pixels of three bytes to levels.
#[multiversion(targets = "simd")]
fn rgb_to_levels(line: &[u8], levels: &mut [Levels]) {
    for (levels, pixel) in levels.iter_mut().zip(line.as_chunks::<RGB>().0) {
        for (level, sample) in levels.iter_mut().zip(pixel) {
            *level = f32::from(*sample);
        }
    }
}

/// Converts pixels of four bytes to levels.
#[multiversion(targets = "simd")]
fn bytes_to_levels(pixels: &[Pixel], levels: &mut [Levels]) {
    let levels = levels.as_flattened_mut().iter_mut();
    for (level, sample) in levels.zip(pixels.as_flattened()) {
        *level = f32::from(*sample);
    }
}
