//! The lines of a resized picture, by profile.

use image::RgbImage;
use multiversion::multiversion;

use super::{Profile, RGB};
use crate::resize::{Pixel, bilinear, point, triangle, view::View};

/// A pixel: red, green, blue and something, in levels of 0..=255.
pub(super) type Levels = [f32; 4];

/// Gives `each` the lines of a view of `picture` from the top, of at least as many pixels as the view is wide.
pub(super) fn each(
    profile: Profile,
    picture: &RgbImage,
    view: &View,
    mut each: impl FnMut(&[Levels]),
) {
    match profile {
        Profile::Torchvision => {
            let mut lines = triangle::lines(picture, view);
            let mut levels = Vec::new();
            while let Some(line) = lines.next() {
                levels.resize(line.len(), Levels::default());
                floats(line, &mut levels);
                each(&levels);
            }
        }
        Profile::Jax => {
            let mut lines = triangle::exact_lines(picture, view);
            while let Some(line) = lines.next() {
                each(line.as_flattened().as_chunks().0);
            }
        }
        Profile::Pil => {
            let scaled = bilinear(picture, view);
            let mut levels = vec![Levels::default(); scaled.width() as usize];
            for line in scaled.chunks_exact(levels.len() * RGB) {
                widen(line, &mut levels);
                each(&levels);
            }
        }
        Profile::Opencv => {
            let mut lines = point::lines(picture, view);
            let mut pixels = lines.room();
            let mut levels = vec![Levels::default(); pixels.as_flattened().len()];
            while let Some(line) = lines.next() {
                point::pixels(&line, &mut pixels);
                floats(pixels.as_flattened(), &mut levels);
                each(&levels);
            }
        }
    }
}

/// The levels of three bytes a pixel.
#[multiversion(targets = "simd")]
fn widen(line: &[u8], levels: &mut [Levels]) {
    for (levels, pixel) in levels.iter_mut().zip(line.as_chunks::<RGB>().0) {
        for (level, sample) in levels.iter_mut().zip(pixel) {
            *level = f32::from(*sample);
        }
    }
}

/// The levels of four bytes a pixel.
#[multiversion(targets = "simd")]
fn floats(pixels: &[Pixel], levels: &mut [Levels]) {
    let levels = levels.as_flattened_mut().iter_mut();
    for (level, sample) in levels.zip(pixels.as_flattened()) {
        *level = f32::from(*sample);
    }
}
