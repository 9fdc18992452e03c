//! The channel planes of a row, and the kernels that write them.

use bytemuck::cast_slice;
use multiversion::{multiversion, target::match_target};

use super::Normalization;
use crate::{
    checkpoint,
    prefetch::prefetch,
    resize::{
        Pixel,
        two_tap::{
            BLOCK, Block, RowPair,
            vertical::{self, Weights},
        },
    },
};

/// The planes of a row, filled line by line from the top.
pub(super) struct Planes<'a> {
    /// The part of each plane that is not filled yet, in the output's order.
    rest: [&'a mut [f32]; 3],
    width: usize,
    normalization: Normalization,
    channels: [Channel; 3],
}

/// The conversion of pixels to one plane.
#[derive(Clone, Copy)]
struct Channel {
    /// The position of its sample in the four bytes of a pixel, in bits.
    shift: u32,
    mean: f32,
    scale: f32,
}

impl Channel {
    #[inline(always)]
    fn value(&self, pixel: Pixel) -> f32 {
        let sample = (u32::from_le_bytes(pixel) >> self.shift) & 255;
        (sample as i32 as f32 - self.mean) * self.scale
    }
}

impl<'a> Planes<'a> {
    /// # Panics
    /// Panics if `row` does not hold three values per pixel.
    pub(super) fn new(
        row: &'a mut [f32],
        (width, height): (u32, u32),
        normalization: &Normalization,
    ) -> Self {
        let (width, height) = (width as usize, height as usize);
        let len = width * height;
        assert_eq!(row.len(), 3 * len, "a row of 3×{height}×{width}");
        let (first, others) = row.split_at_mut(len);
        let (second, third) = others.split_at_mut(len);
        let sources = normalization.planes();
        Self {
            rest: [first, second, third],
            width,
            normalization: *normalization,
            channels: std::array::from_fn(|plane| Channel {
                shift: 8 * sources[plane] as u32,
                mean: normalization.mean[plane],
                scale: normalization.scale[plane],
            }),
        }
    }

    /// Pads the next line of each plane from column `width` on. Returns the part before it, or `None` after the last
    /// line.
    fn line(&mut self, width: usize) -> Option<[&'a mut [f32]; 3]> {
        if self.rest.iter().any(|rest| rest.len() < self.width) {
            return None;
        }
        let mut plane = 0;
        Some(self.rest.each_mut().map(|rest| {
            let (line, below) = std::mem::take(rest).split_at_mut(self.width);
            // A write to a part of a cache line first loads the line.
            prefetch(cast_slice(below.get(..self.width).unwrap_or_default()));
            *rest = below;
            let (inside, padding) = line.split_at_mut(width.min(line.len()));
            fill(padding, self.normalization.value(0, plane));
            plane += 1;
            inside
        }))
    }

    /// Writes the next line of each plane. Pads it if `pixels` is shorter.
    pub(super) fn push(&mut self, pixels: &[Pixel]) {
        let Some(lines) = self.line(pixels.len()) else {
            return;
        };
        for (channel, line) in self.channels.iter().zip(lines) {
            normalize(pixels, channel, line);
        }
    }

    /// Writes the next line of each plane from `width` pixels of a blended row pair, and pads the rest.
    pub(super) fn push_blended(&mut self, pair: &RowPair<'_>, width: usize) {
        if let Some(lines) = self.line(width) {
            blend(pair, &self.channels, lines);
        }
    }

    /// Pads the remaining lines.
    pub(super) fn pad(self) {
        for (plane, rest) in self.rest.into_iter().enumerate() {
            checkpoint::fill(rest, self.normalization.value(0, plane));
        }
    }
}

/// Writes one normalized channel of a line.
#[multiversion(targets = "simd")]
fn normalize(pixels: &[Pixel], channel: &Channel, out: &mut [f32]) {
    for (out, pixel) in out.iter_mut().zip(pixels) {
        *out = channel.value(*pixel);
    }
}

/// Blends a row pair and writes its normalized channels, without a line of bytes in between.
#[multiversion(targets = "simd")]
fn blend(pair: &RowPair<'_>, channels: &[Channel; 3], out: [&mut [f32]; 3]) {
    match_target! {
        "x86_64+avx2" => {
            blend_blocks(pair, channels, out, |rows, weights| vertical::avx2::blend(rows, weights))
        },
        _ => blend_blocks(pair, channels, out, vertical::portable),
    }
}

#[inline(always)]
fn blend_blocks(
    pair: &RowPair<'_>,
    channels: &[Channel; 3],
    out: [&mut [f32]; 3],
    blend: impl Fn([&Block; 2], &Weights) -> [Pixel; BLOCK],
) {
    let [upper, lower] = pair.rows;
    let [first, second, third] = out.map(|line| line.as_chunks_mut::<BLOCK>());
    let outs = first.0.iter_mut().zip(second.0).zip(third.0);
    for ((upper, lower), ((first, second), third)) in upper.iter().zip(lower).zip(outs) {
        let pixels = blend([upper, lower], &pair.weights);
        for (channel, out) in channels.iter().zip([first, second, third]) {
            // This is a loop, because `pixels.map` is sometimes compiled as a call without this function's target
            // features, which takes twice the time.
            for (out, pixel) in out.iter_mut().zip(pixels) {
                *out = channel.value(pixel);
            }
        }
    }
    // The last block may be wider than the rest of the line.
    if let (Some(upper), Some(lower)) = (upper.last(), lower.last()) {
        let pixels = blend([upper, lower], &pair.weights);
        for (channel, out) in channels.iter().zip([first.1, second.1, third.1]) {
            for (out, pixel) in out.iter_mut().zip(pixels) {
                *out = channel.value(pixel);
            }
        }
    }
}

/// Fills with one value.
#[multiversion(targets = "simd")]
fn fill(out: &mut [f32], value: f32) {
    if value.to_bits() == 0 {
        // Clearing memory by `memset` does not load it first.
        bytemuck::cast_slice_mut::<f32, u8>(out).fill(0);
    } else {
        out.fill(value);
    }
}

/// Expands a line of an image to four bytes per pixel.
#[multiversion(targets = "simd")]
pub(super) fn expand(line: &[u8], out: &mut [Pixel]) {
    for (out, pixel) in out.iter_mut().zip(line.as_chunks::<3>().0) {
        *out = [pixel[0], pixel[1], pixel[2], 0];
    }
}
