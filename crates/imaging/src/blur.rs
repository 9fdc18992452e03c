//! Making places in an image unreadable: Gaussian blur, blocks of one colour, and a fill.

use image::RgbImage;
use multiversion::multiversion;

use super::crop::{Region, rows, rows_mut};

const CHANNELS: usize = 3;

/// Samples that are summed at a time, few enough for registers.
const BLOCK: usize = 64;

/// Floats from here to its double are whole, so adding it to a smaller one rounds that.
const WHOLE: f32 = (1 << 23) as f32;

/// The largest kernel, in pixels.
const MAX_KERNEL: u32 = 255;

/// A Gaussian kernel of odd length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaussian {
    kernel: u32,
    sigma: f32,
}

impl Gaussian {
    /// A kernel of `kernel` pixels, odd and 1..=255, with standard deviation `sigma` in pixels, over 0 and finite.
    /// `None` for anything else.
    pub fn new(kernel: u32, sigma: f32) -> Option<Self> {
        let odd = kernel % 2 == 1 && kernel <= MAX_KERNEL;
        (odd && sigma > 0.0 && sigma.is_finite()).then_some(Self { kernel, sigma })
    }

    /// How many pixels it weighs along each axis; odd.
    pub fn kernel(&self) -> u32 {
        self.kernel
    }

    /// The standard deviation in pixels.
    pub fn sigma(&self) -> f32 {
        self.sigma
    }

    /// The weights along one axis, as many as [`Self::kernel`]; their sum is 1.
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

/// The image blurred to within one level of OpenCV's `GaussianBlur` with `BORDER_REFLECT_101`.
pub fn gaussian_blur(image: &RgbImage, gaussian: &Gaussian) -> RgbImage {
    let mut blurred = image.clone();
    blur_region(&mut blurred, Region::whole(image.dimensions()), gaussian);
    blurred
}

/// Blurs the pixels of `region` as [`gaussian_blur`] does; pixels beyond it count, as they are, and do not change.
///
/// The cost is that of the region and the rows and columns that the kernel reaches around it.
pub fn blur_region(image: &mut RgbImage, region: Region, gaussian: &Gaussian) {
    let region = region.clipped(image.dimensions());
    if !region.is_empty() {
        Blur::new(region, gaussian).run(image);
    }
}

/// A place in a buffer of samples, and what the samples from there on weigh.
type Tap = (usize, f32);

/// A blur under way: rows are blurred along themselves as they are reached, and as many as the kernel weighs are held.
struct Blur {
    /// Not empty, and inside the image.
    region: Region,
    reach: u32,
    weights: Vec<f32>,
    /// A row's samples, as far as the kernel reaches to either side.
    line: Vec<f32>,
    /// Rows blurred along themselves, row y at y modulo their number.
    held: Vec<f32>,
    /// A row of the result.
    levels: Vec<[u8; BLOCK]>,
}

impl Blur {
    fn new(region: Region, gaussian: &Gaussian) -> Self {
        let weights = gaussian.weights();
        // Whole blocks: what is beyond the region's samples is summed and left.
        let blocks = (region.width() as usize * CHANNELS).div_ceil(BLOCK);
        Self {
            region,
            reach: gaussian.kernel / 2,
            line: vec![0.0; blocks * BLOCK + (weights.len() - 1) * CHANNELS],
            held: vec![0.0; blocks * BLOCK * weights.len()],
            levels: vec![[0; BLOCK]; blocks],
            weights,
        }
    }

    fn run(mut self, image: &mut RgbImage) {
        let (Region { y1, y2, .. }, reach) = (self.region, self.reach);
        let height = image.height();
        let along: Vec<Tap> = (0..)
            .step_by(CHANNELS)
            .zip(self.weights.iter().copied())
            .collect();
        let mut down: Vec<Tap> = Vec::with_capacity(along.len());
        let mut next = y1.saturating_sub(reach);
        for y in y1..y2 {
            // No row that is still to be read has been written: they are `reach` below.
            while next < height.min(y + reach + 1) {
                self.read(image, next);
                let at = self.place(next as usize);
                let row = &mut self.held[at..at + self.levels.len() * BLOCK];
                blur_row(&self.line, &along, row);
                next += 1;
            }
            down.clear();
            let above = i64::from(y) - i64::from(reach);
            // Reflection leads to rows that are held: it is nearer to `y` than what it stands for, unless the
            // image is lower than the kernel, and then all of it is held.
            down.extend((above..).zip(&self.weights).map(|(row, &weight)| {
                let row = reflect(row, height);
                (self.place(row), weight)
            }));
            blur_column(&self.held, &down, &mut self.levels);
            let line = Region {
                y1: y,
                y2: y + 1,
                ..self.region
            };
            for row in rows_mut(image, line) {
                row.copy_from_slice(&self.levels.as_flattened()[..row.len()]);
            }
        }
    }

    /// Where row `y` is held.
    fn place(&self, y: usize) -> usize {
        y % self.weights.len() * self.levels.len() * BLOCK
    }

    /// Reads row `y` of the image into the line, reflected where it ends.
    fn read(&mut self, image: &RgbImage, y: u32) {
        let width = image.width();
        let stride = width as usize * CHANNELS;
        let row = &image.as_raw()[y as usize * stride..][..stride];
        let inside = self.region.x1.saturating_sub(self.reach)
            ..self.region.x2.saturating_add(self.reach).min(width);
        let first = i64::from(self.region.x1) - i64::from(self.reach);
        // How many pixels of the line are before the image, and how many before or inside it.
        let before = (i64::from(inside.start) - first) as usize;
        let until = before + inside.len();
        let samples = &row[inside.start as usize * CHANNELS..inside.end as usize * CHANNELS];
        let line = &mut self.line[before * CHANNELS..until * CHANNELS];
        for (level, sample) in line.iter_mut().zip(samples) {
            *level = f32::from(*sample);
        }
        let pixels = (self.region.width() + 2 * self.reach) as usize;
        for at in (0..before).chain(until..pixels) {
            let from = reflect(first + at as i64, width) * CHANNELS;
            let line = &mut self.line[at * CHANNELS..(at + 1) * CHANNELS];
            for (level, sample) in line.iter_mut().zip(&row[from..]) {
                *level = f32::from(*sample);
            }
        }
    }
}

/// Reflect-101, as often as it takes: −1 is 1, and `length` is `length − 2`; a single sample reflects on itself.
pub fn reflect(index: i64, length: u32) -> usize {
    let last = i64::from(length) - 1;
    let folded = index.rem_euclid((2 * last).max(1));
    folded.min(2 * last - folded) as usize
}

/// Weighs a line's samples along it; `out` is whole blocks.
#[multiversion(targets = "simd")]
fn blur_row(line: &[f32], taps: &[Tap], out: &mut [f32]) {
    for (at, out) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        *out = weigh(line, taps, at * BLOCK);
    }
}

/// Weighs rows that are held, and rounds.
#[multiversion(targets = "simd")]
fn blur_column(held: &[f32], taps: &[Tap], out: &mut [[u8; BLOCK]]) {
    for (at, out) in out.iter_mut().enumerate() {
        let levels = weigh(held, taps, at * BLOCK);
        *out = levels.map(|level| (level + WHOLE).to_bits() as u8);
    }
}

/// The weighted sums of the blocks that lie `at` samples after each tap.
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

/// Divides the longer side of `region` into `blocks` blocks and the other into as many of about their length, and
/// fills each with its mean colour. There are never more blocks than pixels, and never fewer than one.
pub fn pixelate(image: &mut RgbImage, region: Region, blocks: u32) {
    let region = region.clipped(image.dimensions());
    if region.is_empty() {
        return;
    }
    let long = u64::from(region.width().max(region.height()));
    let blocks = u64::from(blocks).clamp(1, long);
    let cuts = |start: u32, length: u32| -> Vec<u32> {
        let length = u64::from(length);
        let count = ((length * blocks + long / 2) / long).max(1);
        (0..=count)
            .map(|i| start + (i * length / count) as u32)
            .collect()
    };
    let columns = cuts(region.x1, region.width());
    for rows in cuts(region.y1, region.height()).windows(2) {
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

/// The mean colour of a region that has pixels and lies inside the image, rounded to the nearest.
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

/// Fills `region` with `colour`, red, green and blue.
pub fn fill(image: &mut RgbImage, region: Region, colour: [u8; 3]) {
    let region = region.clipped(image.dimensions());
    for row in rows_mut(image, region) {
        row.as_chunks_mut().0.fill(colour);
    }
}

#[cfg(test)]
mod tests;
