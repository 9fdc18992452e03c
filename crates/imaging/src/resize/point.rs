//! Bilinear sampling between the four nearest samples in OpenCV's fixed-point arithmetic (`INTER_LINEAR` on 8-bit
//! pixels, 5.0.0), bit for bit: weights of 11 bits, rows of 4 bits less, and one rounding at the end. Detectors are
//! sensitive to it: rounding after each of the two passes moves boxes by half a pixel.

mod columns;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

use image::RgbImage;
use multiversion::multiversion;

use super::{
    Pixel, RGB,
    view::{Axis, View},
};
use columns::{Columns, sample};

pub(super) const WEIGHT_BITS: u32 = 11;
const ONE: f32 = (1 << WEIGHT_BITS) as f32;

/// Pixels that are mixed at a time.
pub(crate) const BLOCK: usize = 16;

/// Pixels sampled along x, four values each: red, green, blue and something. They have 7 fractional bits: at most
/// 255 · 2^7.
pub(crate) type Block = [u16; 4 * BLOCK];

/// The two samples that a target position lies between, and their weights, which sum to 2^11.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) weights: [u16; 2],
}

/// The taps of the kept positions along one axis.
pub(super) fn taps(axis: &Axis) -> impl Iterator<Item = Tap> + use<> {
    let scale = f64::from(axis.old) / f64::from(axis.new);
    let last = i64::from(axis.old) - 1;
    axis.kept.clone().map(move |target| {
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

/// A source row sampled along x, and which row it is.
struct Row {
    index: Option<usize>,
    samples: Vec<Block>,
}

impl Row {
    fn new(width: u32) -> Self {
        Self {
            index: None,
            samples: vec![[0; 4 * BLOCK]; (width as usize).div_ceil(BLOCK)],
        }
    }
}

/// What each of two rows counts, in 2^11ths, repeated for a register.
#[repr(align(64))]
pub(crate) struct Weights([[u16; 32]; 2]);

/// Two sampled rows and their weights, which a line of a resized picture is mixed from.
pub(crate) struct Line<'a> {
    /// The rows, as wide as the line, in whole blocks.
    pub(crate) rows: [&'a [Block]; 2],
    pub(crate) weights: Weights,
}

/// The lines of a resized picture, from the top.
pub(crate) struct Lines<'a> {
    source: &'a [u8],
    stride: usize,
    columns: Columns,
    rows: std::vec::IntoIter<Tap>,
    upper: Row,
    lower: Row,
}

/// The lines of a view of `picture`.
pub(crate) fn lines<'a>(picture: &'a RgbImage, view: &View) -> Lines<'a> {
    let (width, _) = view.size();
    Lines {
        source: picture.as_raw(),
        stride: picture.width() as usize * RGB,
        columns: Columns::new(taps(&view.columns)),
        rows: taps(&view.rows).collect::<Vec<_>>().into_iter(),
        upper: Row::new(width),
        lower: Row::new(width),
    }
}

impl Lines<'_> {
    /// What [`pixels`] writes a line to.
    pub(crate) fn room(&self) -> Vec<[Pixel; BLOCK]> {
        vec![[Pixel::default(); BLOCK]; self.upper.samples.len()]
    }

    /// The next line; `None` below the last one.
    pub(crate) fn next(&mut self) -> Option<Line<'_>> {
        let tap = self.rows.next()?;
        // Going down, the lower row of one line is often the upper row of the next.
        if self.lower.index == Some(tap.first) {
            std::mem::swap(&mut self.upper, &mut self.lower);
        }
        // A row that counts nothing need not be sampled.
        let second = Some(tap.second).filter(|_| tap.weights[1] > 0);
        for (row, index) in [
            (&mut self.upper, Some(tap.first)),
            (&mut self.lower, second),
        ] {
            if let Some(at) = index
                && row.index != index
            {
                row.index = index;
                let source = self.source.get(at * self.stride..).unwrap_or_default();
                sample(source, &self.columns, &mut row.samples);
            }
        }
        Some(Line {
            rows: [&self.upper.samples, &self.lower.samples],
            weights: Weights(tap.weights.map(|weight| [weight; 32])),
        })
    }
}

/// Weighs the blocks of two rows and rounds to whole levels.
#[inline(always)]
pub(crate) fn mix([upper, lower]: [&Block; 2], weights: &Weights) -> [Pixel; BLOCK] {
    let [[above, ..], [below, ..]] = weights.0;
    let high = |a: u16, b: u16| ((u32::from(a) * u32::from(b)) >> 16) as u16;
    // In two steps, so that the arithmetic is done on 16 bits and only its results are made narrower.
    let mut levels = [0u16; 4 * BLOCK];
    for ((level, &upper), &lower) in levels.iter_mut().zip(upper).zip(lower) {
        *level = (high(above, upper) + high(below, lower) + 2) >> 2;
    }
    let mut narrow = [0u8; 4 * BLOCK];
    for (narrow, level) in narrow.iter_mut().zip(levels) {
        *narrow = level as u8;
    }
    bytemuck::must_cast(narrow)
}

/// Mixes a line's pixels.
#[multiversion(targets = "simd")]
pub(crate) fn pixels(line: &Line<'_>, out: &mut [[Pixel; BLOCK]]) {
    let [upper, lower] = line.rows;
    for ((out, upper), lower) in out.iter_mut().zip(upper).zip(lower) {
        *out = mix([upper, lower], &line.weights);
    }
}

/// A view of `picture`.
pub(super) fn resize(picture: &RgbImage, view: &View) -> RgbImage {
    let (width, height) = view.size();
    let mut lines = lines(picture, view);
    let mut blocks = lines.room();
    let mut target = Vec::with_capacity(width as usize * height as usize * RGB);
    while let Some(line) = lines.next() {
        pixels(&line, &mut blocks);
        let line = blocks.as_flattened().iter().take(width as usize);
        target.extend(line.flat_map(|[r, g, b, _]| [r, g, b]));
    }
    RgbImage::from_raw(width, height, target).unwrap_or_default()
}

#[cfg(test)]
mod tests;
