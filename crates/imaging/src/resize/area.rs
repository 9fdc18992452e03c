//! Area averaging with fractional coverage, first along rows, then along columns.

use image::RgbImage;

pub(super) fn resize(picture: &RgbImage, width: u32, height: u32) -> RgbImage {
    let columns = spans(picture.width(), width);
    let rows = spans(picture.height(), height);
    let source = picture.as_raw();
    let stride = picture.width() as usize * 3;
    let mut target = Vec::with_capacity(width as usize * height as usize * 3);
    let mut line = vec![0f32; stride];
    for row in &rows {
        line.fill(0.0);
        for (y, weight) in row.parts() {
            for (sum, sample) in line.iter_mut().zip(&source[y * stride..]) {
                *sum += weight * f32::from(*sample);
            }
        }
        for column in &columns {
            let mut pixel = [0f32; 3];
            for (x, weight) in column.parts() {
                for (sum, sample) in pixel.iter_mut().zip(&line[x * 3..]) {
                    *sum += weight * sample;
                }
            }
            target.extend(pixel.map(|v| v.round() as u8));
        }
    }
    RgbImage::from_raw(width, height, target).unwrap_or_default()
}

/// The samples that one output covers: from `first`, with weights that add up to 1.
struct Span {
    first: usize,
    weights: Vec<f32>,
}

impl Span {
    fn parts(&self) -> impl Iterator<Item = (usize, f32)> {
        self.weights
            .iter()
            .enumerate()
            .map(|(i, weight)| (self.first + i, *weight))
    }
}

fn spans(source: u32, target: u32) -> Vec<Span> {
    let scale = f64::from(source) / f64::from(target);
    (0..target)
        .map(|i| {
            let (from, to) = (f64::from(i) * scale, f64::from(i + 1) * scale);
            // Rounding must not reach for a sample that is covered by nothing but rounding.
            let first = (from + 1e-9).floor() as u32;
            let last = (((to - 1e-9).ceil() as u32).min(source)).max(first + 1);
            let weights = (first..last)
                .map(|s| {
                    let covered = to.min(f64::from(s + 1)) - from.max(f64::from(s));
                    (covered / scale) as f32
                })
                .collect();
            Span {
                first: first as usize,
                weights,
            }
        })
        .collect()
}
