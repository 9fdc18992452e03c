//! Anonymisation of regions: Gaussian blur, pixelation and fill.

use image::RgbImage;
use multiversion::multiversion;

use super::{
    border::reflect_101,
    checkpoint::passed,
    crop::{Region, copy, rows, rows_mut},
};

const CHANNELS: usize = 3;

/// The number of samples that are summed at a time. Their sums fit into registers.
const BLOCK: usize = 64;

/// Every f32 from this value to its double is a whole number. Adding this value to a smaller number rounds that number.
const ROUNDING: f32 = (1 << 23) as f32;

/// The longest kernel in pixels.
const MAX_KERNEL: u32 = 255;

/// A Gaussian kernel of odd length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaussian {
    kernel: u32,
    sigma: f32,
}

impl Gaussian {
    /// Creates a kernel of `kernel` pixels and a standard deviation of `sigma` pixels. Returns `None` unless `kernel`
    /// is odd and in 1..=255, and `sigma` is finite and above 0.
    pub fn new(kernel: u32, sigma: f32) -> Option<Self> {
        let odd = kernel % 2 == 1 && kernel <= MAX_KERNEL;
        (odd && sigma > 0.0 && sigma.is_finite()).then_some(Self { kernel, sigma })
    }

    /// Returns the length of the kernel in pixels. It is odd.
    pub fn kernel(&self) -> u32 {
        self.kernel
    }

    /// Returns the standard deviation in pixels.
    pub fn sigma(&self) -> f32 {
        self.sigma
    }

    /// Returns the weights along one axis: [`Self::kernel`] values that add up to 1.
    pub fn weights(&self) -> Vec<f32> {
        let spread = 2.0 * f64::from(self.sigma).powi(2);
        let centre = f64::from(self.kernel / 2);
        let raw: Vec<f64> = (0..self.kernel)
            .map(|i| (-(f64::from(i) - centre).powi(2) / spread).exp())
            .collect();
        let sum: f64 = raw.iter().sum();
        raw.iter().map(|weight| (weight / sum) as f32).collect()
    }
}

/// Blurs an image, to within one level of OpenCV's `GaussianBlur` with `BORDER_REFLECT_101`.
pub fn gaussian_blur(image: &RgbImage, gaussian: &Gaussian) -> RgbImage {
    let mut blurred = copy(image);
    blur_region(&mut blurred, Region::full(image.dimensions()), gaussian);
    blurred
}

/// Blurs the pixels of `region` as [`gaussian_blur`] does. The kernel reads the pixels around the region, which do not
/// change.
///
/// The cost is that of the region, extended by half a kernel on each side.
pub fn blur_region(image: &mut RgbImage, region: Region, gaussian: &Gaussian) {
    let region = region.clipped(image.dimensions());
    if !region.is_empty() {
        Blur::new(region, gaussian).run(image);
    }
}

/// An offset into a buffer of samples, and the weight of the samples from there on.
type Tap = (usize, f32);

/// A blur in progress. Rows are blurred horizontally when they are reached; a ring buffer has as many of them as the
/// kernel is long.
struct Blur {
    /// The region to blur. It is not empty and lies inside the image.
    region: Region,
    radius: u32,
    weights: Vec<f32>,
    /// The samples of a row, extended by the radius on both sides.
    line: Vec<f32>,
    /// Horizontally blurred rows: row y is at y modulo the length of the kernel.
    ring: Vec<f32>,
    /// A row of the result.
    levels: Vec<[u8; BLOCK]>,
}

impl Blur {
    fn new(region: Region, gaussian: &Gaussian) -> Self {
        let weights = gaussian.weights();
        // The blocks are complete. The sums after the region's samples are not used.
        let blocks = (region.width() as usize * CHANNELS).div_ceil(BLOCK);
        Self {
            region,
            radius: gaussian.kernel / 2,
            line: vec![0.0; blocks * BLOCK + (weights.len() - 1) * CHANNELS],
            ring: vec![0.0; blocks * BLOCK * weights.len()],
            levels: vec![[0; BLOCK]; blocks],
            weights,
        }
    }

    fn run(mut self, image: &mut RgbImage) {
        let (Region { y1, y2, .. }, radius) = (self.region, self.radius);
        let height = image.height();
        let along: Vec<Tap> = (0..)
            .step_by(CHANNELS)
            .zip(self.weights.iter().copied())
            .collect();
        let mut down: Vec<Tap> = Vec::with_capacity(along.len());
        let mut next = y1.saturating_sub(radius);
        for y in y1..y2 {
            // A row is read before it is written, because reading is `radius` rows ahead.
            while next < height.min(y + radius + 1) {
                self.read(image, next);
                let at = self.ring_offset(next as usize);
                let row = &mut self.ring[at..at + self.levels.len() * BLOCK];
                blur_row(&self.line, &along, row);
                passed(row.len() * along.len() / 8);
                next += 1;
            }
            down.clear();
            let above = i64::from(y) - i64::from(radius);
            // Reflected rows are in the ring buffer: they are closer to `y` than the rows outside the image. An image
            // lower than the kernel is in the ring buffer completely.
            down.extend((above..).zip(&self.weights).map(|(row, &weight)| {
                let row = reflect_101(row, height);
                (self.ring_offset(row), weight)
            }));
            blur_column(&self.ring, &down, &mut self.levels);
            let line = Region {
                y1: y,
                y2: y + 1,
                ..self.region
            };
            for row in rows_mut(image, line) {
                row.copy_from_slice(&self.levels.as_flattened()[..row.len()]);
            }
            // Eight taps take about as long as a plain pass.
            passed(self.levels.len() * BLOCK * self.weights.len() / 8);
        }
    }

    /// Returns the offset of row `y` in the ring buffer.
    fn ring_offset(&self, y: usize) -> usize {
        y % self.weights.len() * self.levels.len() * BLOCK
    }

    /// Reads row `y` of the image into the line, reflected at its ends.
    fn read(&mut self, image: &RgbImage, y: u32) {
        let width = image.width();
        let stride = width as usize * CHANNELS;
        let row = &image.as_raw()[y as usize * stride..][..stride];
        let inside = self.region.x1.saturating_sub(self.radius)
            ..self.region.x2.saturating_add(self.radius).min(width);
        let first = i64::from(self.region.x1) - i64::from(self.radius);
        // The number of pixels of the line before the image, and the number before the image's end.
        let before = (i64::from(inside.start) - first) as usize;
        let until = before + inside.len();
        let samples = &row[inside.start as usize * CHANNELS..inside.end as usize * CHANNELS];
        let line = &mut self.line[before * CHANNELS..until * CHANNELS];
        for (level, sample) in line.iter_mut().zip(samples) {
            *level = f32::from(*sample);
        }
        let pixels = (self.region.width() + 2 * self.radius) as usize;
        for at in (0..before).chain(until..pixels) {
            let from = reflect_101(first + at as i64, width) * CHANNELS;
            let line = &mut self.line[at * CHANNELS..(at + 1) * CHANNELS];
            for (level, sample) in line.iter_mut().zip(&row[from..]) {
                *level = f32::from(*sample);
            }
        }
    }
}

/// Blurs a line horizontally; `out` has complete blocks.
#[multiversion(targets = "simd")]
fn blur_row(line: &[f32], taps: &[Tap], out: &mut [f32]) {
    for (at, out) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        *out = weigh(line, taps, at * BLOCK);
    }
}

/// Blurs rows vertically and rounds to the nearest level.
#[multiversion(targets = "simd")]
fn blur_column(ring: &[f32], taps: &[Tap], out: &mut [[u8; BLOCK]]) {
    for (at, out) in out.iter_mut().enumerate() {
        let levels = weigh(ring, taps, at * BLOCK);
        *out = levels.map(|level| (level + ROUNDING).to_bits() as u8);
    }
}

/// Returns the weighted sum of a block of samples at offset `at` from each tap.
#[inline(always)]
fn weigh(samples: &[f32], taps: &[Tap], at: usize) -> [f32; BLOCK] {
    let mut sums = [0.0; BLOCK];
    for &(tap, weight) in taps {
        if let Some(samples) = samples[tap + at..].first_chunk::<BLOCK>() {
            for (sum, sample) in sums.iter_mut().zip(samples) {
                *sum += sample * weight;
            }
        }
    }
    sums
}

/// Pixelates `region`: divides its longer side into `blocks` blocks and the other side into blocks of about the same
/// length, and fills each block with its mean colour. The number of blocks is clamped to between one and the number of
/// pixels.
pub fn pixelate(image: &mut RgbImage, region: Region, blocks: u32) {
    let region = region.clipped(image.dimensions());
    if region.is_empty() {
        return;
    }
    let long = u64::from(region.width().max(region.height()));
    let blocks = u64::from(blocks).clamp(1, long);
    let edges = |start: u32, length: u32| -> Vec<u32> {
        let length = u64::from(length);
        let count = ((length * blocks + long / 2) / long).max(1);
        (0..=count)
            .map(|i| start + (i * length / count) as u32)
            .collect()
    };
    let columns = edges(region.x1, region.width());
    for rows in edges(region.y1, region.height()).windows(2) {
        for columns in columns.windows(2) {
            let block = Region {
                x1: columns[0],
                y1: rows[0],
                x2: columns[1],
                y2: rows[1],
            };
            let colour = mean(image, block);
            fill(image, block, colour);
        }
    }
}

/// Returns the mean colour of a region, rounded to the nearest level. The region has pixels and lies inside the image.
fn mean(image: &RgbImage, region: Region) -> [u8; 3] {
    let mut sums = [0u64; CHANNELS];
    for row in rows(image, region) {
        for pixel in row.as_chunks::<CHANNELS>().0 {
            for (sum, sample) in sums.iter_mut().zip(pixel) {
                *sum += u64::from(*sample);
            }
        }
    }
    let count = u64::from(region.width()) * u64::from(region.height());
    sums.map(|sum| ((sum + count / 2) / count) as u8)
}

/// Fills `region` with the RGB `colour`.
pub fn fill(image: &mut RgbImage, region: Region, colour: [u8; 3]) {
    let region = region.clipped(image.dimensions());
    for row in rows_mut(image, region) {
        row.as_chunks_mut().0.fill(colour);
    }
}

#[cfg(test)]
mod tests;
