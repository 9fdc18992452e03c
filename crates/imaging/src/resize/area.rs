//! Area averaging: the mean of the source samples that a target pixel covers, weighted by how much of each it covers.

use image::RgbImage;
use multiversion::multiversion;

use crate::checkpoint::passed;

pub(super) fn resize(image: &RgbImage, width: u32, height: u32) -> RgbImage {
    let columns = windows(image.width(), width);
    let rows = windows(image.height(), height);
    let source = image.as_raw();
    let stride = image.width() as usize * 3;
    let mut target = Vec::with_capacity(width as usize * height as usize * 3);
    // With one value behind the last pixel, because pixels are added in fours.
    let mut sums = vec![0f32; stride + 1];
    for row in &rows {
        sums.fill(0.0);
        for (y, weight) in row.taps() {
            add(&mut sums[..stride], &source[y * stride..][..stride], weight);
            passed(stride);
        }
        for column in &columns {
            let [red, green, blue, _] = column.mean(&sums);
            target.extend([red, green, blue].map(|v| v.round() as u8));
        }
        passed(2 * stride + columns.len() * 8);
    }
    RgbImage::from_raw(width, height, target).unwrap_or_default()
}

/// Adds a row of samples with a weight.
#[multiversion(targets = "simd")]
fn add(sums: &mut [f32], samples: &[u8], weight: f32) {
    for (sum, sample) in sums.iter_mut().zip(samples) {
        *sum += weight * f32::from(*sample);
    }
}

/// The weights of one target position, from source sample `first` on. They add up to 1.
struct Window {
    first: usize,
    weights: Vec<f32>,
}

impl Window {
    fn taps(&self) -> impl Iterator<Item = (usize, f32)> {
        self.weights
            .iter()
            .enumerate()
            .map(|(i, weight)| (self.first + i, *weight))
    }

    /// Returns the mean of the pixels in a row of samples. The fourth value has no meaning: four at a time take one instruction.
    fn mean(&self, row: &[f32]) -> [f32; 4] {
        let mut mean = [0.0; 4];
        for (x, weight) in self.taps() {
            let samples = row.get(3 * x..).and_then(<[f32]>::first_chunk::<4>);
            for (sum, sample) in mean.iter_mut().zip(samples.unwrap_or(&[0.0; 4])) {
                *sum += weight * sample;
            }
        }
        mean
    }
}

fn windows(source: u32, target: u32) -> Vec<Window> {
    let scale = f64::from(source) / f64::from(target);
    (0..target)
        .map(|i| {
            let (from, to) = (f64::from(i) * scale, f64::from(i + 1) * scale);
            // Without the tolerance, rounding could add a sample that is not covered.
            let first = (from + 1e-9).floor() as u32;
            let last = (((to - 1e-9).ceil() as u32).min(source)).max(first + 1);
            let weights = (first..last)
                .map(|s| {
                    let covered = to.min(f64::from(s + 1)) - from.max(f64::from(s));
                    (covered / scale) as f32
                })
                .collect();
            Window {
                first: first as usize,
                weights,
            }
        })
        .collect()
}
