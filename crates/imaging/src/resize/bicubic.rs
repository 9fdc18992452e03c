//! Pillow's bicubic, to the last bit: what the enhancement does next multiplies the difference of one level.

use image::RgbImage;

use super::{view::Axis, window};

/// Pillow keeps weights in 22 fractional bits: 32, less 8 for the sample and 2 for overshoot and sign.
pub(super) const FRACTION: u32 = 22;

pub(super) fn resize(picture: &RgbImage, width: u32, height: u32) -> RgbImage {
    let columns = windows(picture.width(), width);
    let rows = windows(picture.height(), height);
    let (old_width, old_height) = (picture.width() as usize, picture.height() as usize);
    let (new_width, new_height) = (width as usize, height as usize);
    let mut narrow = Vec::with_capacity(new_width * old_height * 3);
    for line in picture.as_raw().chunks_exact(old_width * 3) {
        for column in &columns {
            for channel in 0..3 {
                narrow.push(column.weigh(|x| line[x * 3 + channel]));
            }
        }
    }
    let stride = new_width * 3;
    let mut samples = Vec::with_capacity(stride * new_height);
    for row in &rows {
        for x in 0..stride {
            samples.push(row.weigh(|y| narrow[y * stride + x]));
        }
    }
    RgbImage::from_raw(width, height, samples).unwrap_or_default()
}

/// The samples that one output is made of, from `first` on.
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
        ((sum + (1 << (FRACTION - 1))) >> FRACTION).clamp(0, 255) as u8
    }
}

pub(super) fn windows(old: u32, new: u32) -> Vec<Window> {
    let fixed = |w: &f64| (w * f64::from(1 << FRACTION)).round() as i32;
    let mut windows = Vec::with_capacity(new as usize);
    window::windows(&Axis::whole(old, new), 2.0, kernel, |first, weights| {
        windows.push(Window {
            first,
            weights: weights.iter().map(fixed).collect(),
        });
    });
    windows
}

/// Keys' cubic with a = −0.5.
fn kernel(x: f64) -> f64 {
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
