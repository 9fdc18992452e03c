//! The 3 × 3 median filter.

use image::RgbImage;
use multiversion::multiversion;

use crate::checkpoint::passed;

const CHANNELS: usize = 3;

/// Replaces each sample by the median of the 3 × 3 samples of its channel around it. The pixels at the edges are repeated outside
/// the image.
pub(super) fn median(image: &RgbImage) -> RgbImage {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let mut filtered = RgbImage::new(image.width(), image.height());
    if image.is_empty() {
        return filtered;
    }
    let stride = width * CHANNELS;
    let source = image.as_raw();
    let row = |y: usize| &source[y * stride..(y + 1) * stride];
    let mut columns = Columns::new(stride + 2 * CHANNELS);
    for (y, out) in filtered.chunks_exact_mut(stride).enumerate() {
        let rows = [y.saturating_sub(1), y, (y + 1).min(height - 1)].map(row);
        columns.sort(rows);
        columns.medians(out);
        passed(4 * stride);
    }
    filtered
}

/// Three rows, sorted column by column, with one more pixel on both sides.
struct Columns {
    low: Vec<u8>,
    middle: Vec<u8>,
    high: Vec<u8>,
}

impl Columns {
    fn new(samples: usize) -> Self {
        let [low, middle, high] = [(); 3].map(|()| vec![0; samples]);
        Self { low, middle, high }
    }

    fn sort(&mut self, rows: [&[u8]; 3]) {
        let inside = CHANNELS..CHANNELS + rows[0].len();
        sort_columns(
            rows,
            &mut self.low[inside.clone()],
            &mut self.middle[inside.clone()],
            &mut self.high[inside],
        );
        for line in [&mut self.low, &mut self.middle, &mut self.high] {
            let end = line.len();
            line.copy_within(CHANNELS..2 * CHANNELS, 0);
            line.copy_within(end - 2 * CHANNELS..end - CHANNELS, end - CHANNELS);
        }
    }

    fn medians(&self, out: &mut [u8]) {
        medians(&self.low, &self.middle, &self.high, out);
    }
}

#[multiversion(targets = "simd")]
fn sort_columns(rows: [&[u8]; 3], low: &mut [u8], middle: &mut [u8], high: &mut [u8]) {
    let values = rows[0].iter().zip(rows[1]).zip(rows[2]);
    let sorted = low.iter_mut().zip(middle).zip(high);
    for (((&a, &b), &c), ((low, middle), high)) in values.zip(sorted) {
        *low = a.min(b).min(c);
        *middle = median_of([a, b, c]);
        *high = a.max(b).max(c);
    }
}

/// The median of nine values in sorted columns is the median of the largest low, the median middle and the smallest high one.
#[multiversion(targets = "simd")]
fn medians(low: &[u8], middle: &[u8], high: &[u8], out: &mut [u8]) {
    let around = |line: &[u8], at: usize| [line[at], line[at + CHANNELS], line[at + 2 * CHANNELS]];
    let count = out.len();
    let (low, middle, high) = (
        &low[..count + 2 * CHANNELS],
        &middle[..count + 2 * CHANNELS],
        &high[..count + 2 * CHANNELS],
    );
    for (at, out) in out.iter_mut().enumerate() {
        let [a, b, c] = around(low, at);
        let [d, e, f] = around(high, at);
        let largest = a.max(b).max(c);
        let smallest = d.min(e).min(f);
        *out = median_of([largest, median_of(around(middle, at)), smallest]);
    }
}

#[inline(always)]
fn median_of([a, b, c]: [u8; 3]) -> u8 {
    a.max(b).min(a.min(b).max(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::noise;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_median_is_that_of_a_library(width in 1u32..40, height in 1u32..20) {
            let image = noise(width, height);
            prop_assert_eq!(median(&image), imageproc::filter::median_filter(&image, 1, 1));
        }
    }
}
