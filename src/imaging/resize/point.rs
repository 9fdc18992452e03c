//! Bilinear sampling between the four nearest samples in OpenCV's fixed-point arithmetic (`INTER_LINEAR` on 8-bit
//! pixels, 5.0.0), bit for bit: weights of 11 bits, rows of 4 bits less, and one rounding at the end. Detectors are
//! sensitive to it: rounding after each of the two passes moves boxes by half a pixel.

use image::RgbImage;
use multiversion::multiversion;

use super::{Pixel, RGB};

pub(super) const WEIGHT_BITS: u32 = 11;
const ONE: f32 = (1 << WEIGHT_BITS) as f32;

/// Samples that are mixed at a time.
const BLOCK: usize = 64;

/// The two samples that a target position lies between, and their weights, which sum to 2^11.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) weights: [u16; 2],
}

/// The taps along one axis.
pub(super) fn taps(from: u32, to: u32) -> impl Iterator<Item = Tap> {
    let scale = f64::from(from) / f64::from(to);
    let last = i64::from(from) - 1;
    (0..to).map(move |target| {
        let centre = ((f64::from(target) + 0.5) * scale - 0.5) as f32;
        let floor = centre.floor();
        let share = centre - floor;
        // Beyond the outermost centres the border sample stands for both.
        let sample = |index: i64| index.clamp(0, last) as usize;
        let weight = |share: f32| (share * ONE).round_ties_even() as u16;
        Tap {
            first: sample(floor as i64),
            second: sample(floor as i64 + 1),
            weights: [weight(1.0 - share), weight(share)],
        }
    })
}

/// Where each column's two samples lie in a source row, and their weights.
struct Columns {
    /// Of the first sample, in bytes; the second follows it.
    offsets: Vec<u32>,
    /// The first and the second weight, repeated for each channel.
    weights: [Vec<[u16; 4]>; 2],
    /// The first and the second samples of the row at hand.
    samples: [Vec<Pixel>; 2],
}

impl Columns {
    fn new(from: u32, to: u32) -> Self {
        let taps = || {
            taps(from, to).map(|tap| {
                // A border sample that stands for both bears both weights, and what follows it none.
                let [first, second] = tap.weights;
                let alone = tap.first == tap.second;
                (
                    (tap.first * RGB) as u32,
                    if alone {
                        [first + second, 0]
                    } else {
                        tap.weights
                    },
                )
            })
        };
        let samples = vec![Pixel::default(); to as usize];
        Self {
            offsets: taps().map(|(offset, _)| offset).collect(),
            weights: [0, 1].map(|i| taps().map(|(_, weights)| [weights[i]; 4]).collect()),
            samples: [samples.clone(), samples],
        }
    }
}

/// A source row sampled along x, and which row it is. The samples have 7 fractional bits: at most 255 · 2^7.
struct Row {
    index: Option<usize>,
    samples: Vec<[u16; 4]>,
}

impl Row {
    fn new(width: u32) -> Self {
        Self {
            index: None,
            samples: vec![[0; 4]; width as usize],
        }
    }
}

/// The lines of a resized picture, from the top.
pub(in crate::imaging) struct Lines<'a> {
    source: &'a [u8],
    stride: usize,
    columns: Columns,
    rows: std::vec::IntoIter<Tap>,
    upper: Row,
    lower: Row,
    pixels: Vec<Pixel>,
}

/// The lines of `picture` at `width` × `height`; both pictures have pixels.
pub(in crate::imaging) fn lines(picture: &RgbImage, width: u32, height: u32) -> Lines<'_> {
    Lines {
        source: picture.as_raw(),
        stride: picture.width() as usize * RGB,
        columns: Columns::new(picture.width(), width),
        rows: taps(picture.height(), height)
            .collect::<Vec<_>>()
            .into_iter(),
        upper: Row::new(width),
        lower: Row::new(width),
        pixels: vec![Pixel::default(); width as usize],
    }
}

impl Lines<'_> {
    /// The next line; `None` below the last one.
    pub(in crate::imaging) fn next(&mut self) -> Option<&[Pixel]> {
        let tap = self.rows.next()?;
        // Going down, the lower row of one line is often the upper row of the next.
        if self.lower.index == Some(tap.first) {
            std::mem::swap(&mut self.upper, &mut self.lower);
        }
        for (row, index) in [(&mut self.upper, tap.first), (&mut self.lower, tap.second)] {
            if row.index != Some(index) {
                row.index = Some(index);
                let source = self.source.get(index * self.stride..).unwrap_or_default();
                sample(source, &mut self.columns, &mut row.samples);
            }
        }
        mix(
            [&self.upper.samples, &self.lower.samples],
            tap.weights,
            &mut self.pixels,
        );
        Some(&self.pixels)
    }
}

/// Samples the row that `source` begins with along x.
#[multiversion(targets = "simd")]
fn sample(source: &[u8], columns: &mut Columns, out: &mut [[u16; 4]]) {
    let [first, second] = &mut columns.samples;
    for ((first, second), &offset) in first.iter_mut().zip(&mut *second).zip(&columns.offsets) {
        // One load brings both samples; only at the picture's end are there fewer bytes than that.
        let offset = offset as usize;
        let both = match source.get(offset..offset + 8) {
            Some(&[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => tail(source, offset),
        };
        *first = (both as u32).to_le_bytes();
        *second = ((both >> 24) as u32).to_le_bytes();
    }
    let samples = first.as_flattened().iter().zip(second.as_flattened());
    let [first, second] = &columns.weights;
    let weights = first.as_flattened().iter().zip(second.as_flattened());
    for ((out, (&a, &b)), (&v, &w)) in out.as_flattened_mut().iter_mut().zip(samples).zip(weights) {
        let sum = i32::from(a) * i32::from(v as i16) + i32::from(b) * i32::from(w as i16);
        *out = (sum >> 4) as u16;
    }
}

/// The bytes from `offset` on, and zeros beyond the last.
#[cold]
fn tail(source: &[u8], offset: usize) -> u64 {
    let rest = source.get(offset..).unwrap_or_default();
    u64::from_le_bytes(std::array::from_fn(|i| {
        rest.get(i).copied().unwrap_or_default()
    }))
}

/// Weighs two rows and rounds to whole levels.
#[multiversion(targets = "simd")]
fn mix([upper, lower]: [&[[u16; 4]]; 2], [above, below]: [u16; 2], out: &mut [Pixel]) {
    let high = |a: u16, b: u16| ((u32::from(a) * u32::from(b)) >> 16) as u16;
    let level = |upper: u16, lower: u16| (high(above, upper) + high(below, lower) + 2) >> 2;
    // In blocks, so that the arithmetic is done on 16 bits and only its results are made narrower.
    let (upper, upper_rest) = upper.as_flattened().as_chunks::<BLOCK>();
    let (lower, lower_rest) = lower.as_flattened().as_chunks::<BLOCK>();
    let (blocks, rest) = out.as_flattened_mut().as_chunks_mut::<BLOCK>();
    for ((out, upper), lower) in blocks.iter_mut().zip(upper).zip(lower) {
        let mut levels = [0u16; BLOCK];
        for ((out, &upper), &lower) in levels.iter_mut().zip(upper).zip(lower) {
            *out = level(upper, lower);
        }
        *out = levels.map(|level| level as u8);
    }
    for ((out, &upper), &lower) in rest.iter_mut().zip(upper_rest).zip(lower_rest) {
        *out = level(upper, lower) as u8;
    }
}

/// Resizes to `width` × `height`; both pictures have pixels.
pub(super) fn resize(picture: &RgbImage, width: u32, height: u32) -> RgbImage {
    let mut lines = lines(picture, width, height);
    let mut target = Vec::with_capacity(width as usize * height as usize * RGB);
    while let Some(line) = lines.next() {
        target.extend(line.iter().flat_map(|[r, g, b, _]| [r, g, b]));
    }
    RgbImage::from_raw(width, height, target).unwrap_or_default()
}
