//! Pillow's `BICUBIC`, bit for bit: the enhancement steps that follow would multiply a difference of one level.

use image::RgbImage;

use super::{view::Axis, window};
use crate::checkpoint::passed;

/// Fractional bits of a weight in Pillow: 32 bits, less 8 for the sample and 2 for overshoot and sign.
pub(super) const WEIGHT_BITS: u32 = 22;

/// The work on a pixel along one axis, in samples of a plain pass.
const WORK: usize = 64;

/// Resizes along the rows, then along the columns, with a rounding after each.
pub(super) fn resize(image: &RgbImage, width: u32, height: u32) -> RgbImage {
    let columns = windows(image.width(), width);
    let rows = windows(image.height(), height);
    let (source_width, source_height) = (image.width() as usize, image.height() as usize);
    let (target_width, target_height) = (width as usize, height as usize);
    let mut narrow = Vec::with_capacity(target_width * source_height * 3);
    for row in image.as_raw().chunks_exact(source_width * 3) {
        for column in &columns {
            for channel in 0..3 {
                narrow.push(column.weigh(|x| row[x * 3 + channel]));
            }
        }
        passed(target_width * WORK);
    }
    let stride = target_width * 3;
    let mut samples = Vec::with_capacity(stride * target_height);
    for row in &rows {
        for x in 0..stride {
            samples.push(row.weigh(|y| narrow[y * stride + x]));
        }
        passed(target_width * WORK);
    }
    RgbImage::from_raw(width, height, samples).unwrap_or_default()
}

/// The weights of one target position, from source sample `first` on.
pub(super) struct Window {
    pub(super) first: usize,
    pub(super) weights: Vec<i32>,
}

impl Window {
    fn weigh(&self, sample: impl Fn(usize) -> u8) -> u8 {
        let parts = self.weights.iter().enumerate();
        let sum: i32 = parts
            .map(|(i, weight)| weight * i32::from(sample(self.first + i)))
            .sum();
        ((sum + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS).clamp(0, 255) as u8
    }
}

/// Returns the windows of all target positions.
pub(super) fn windows(source: u32, target: u32) -> Vec<Window> {
    let fixed = |w: &f64| (w * f64::from(1 << WEIGHT_BITS)).round() as i32;
    let mut windows = Vec::with_capacity(target as usize);
    window::windows(
        &Axis::full(source, target),
        2.0,
        keys_cubic,
        |first, weights| {
            windows.push(Window {
                first,
                weights: weights.iter().map(fixed).collect(),
            });
        },
    );
    windows
}

/// Returns the cubic convolution kernel of Keys (1981) with a = −0.5.
fn keys_cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}
