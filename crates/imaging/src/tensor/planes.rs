//! The planes of a row, and what writes them.

use bytemuck::cast_slice;
use multiversion::{multiversion, target::match_target};

use super::Normalisation;
use crate::{
    cache,
    resize::{
        Pixel,
        point::{self, BLOCK, Block, Line, Weights},
    },
};

/// The planes of a row, filled line by line from the top.
pub(super) struct Planes<'a> {
    /// What is still to be filled, in the output's order.
    rest: [&'a mut [f32]; 3],
    width: usize,
    normalisation: Normalisation,
    channels: [Channel; 3],
}

/// What makes a plane of pixels.
#[derive(Clone, Copy)]
struct Channel {
    /// Where in a pixel's four bytes its sample begins, in bits.
    shift: u32,
    mean: f32,
    scale: f32,
}

impl Channel {
    #[inline(always)]
    fn of(&self, pixel: Pixel) -> f32 {
        let sample = (u32::from_le_bytes(pixel) >> self.shift) & 255;
        (sample as i32 as f32 - self.mean) * self.scale
    }
}

impl<'a> Planes<'a> {
    /// # Panics
    /// When `row` does not hold three values a pixel.
    pub(super) fn new(
        row: &'a mut [f32],
        (width, height): (u32, u32),
        normalisation: &Normalisation,
    ) -> Self {
        let (width, height) = (width as usize, height as usize);
        let len = width * height;
        assert_eq!(row.len(), 3 * len, "a row of 3×{height}×{width}");
        let (first, others) = row.split_at_mut(len);
        let (second, third) = others.split_at_mut(len);
        let sources = normalisation.planes();
        Self {
            rest: [first, second, third],
            width,
            normalisation: *normalisation,
            channels: std::array::from_fn(|plane| Channel {
                shift: 8 * sources[plane] as u32,
                mean: normalisation.mean[plane],
                scale: normalisation.scale[plane],
            }),
        }
    }

    /// The next line of each plane up to `width`, with padding beyond; `None` below the last.
    fn line(&mut self, width: usize) -> Option<[&'a mut [f32]; 3]> {
        if self.rest.iter().any(|rest| rest.len() < self.width) {
            return None;
        }
        let mut plane = 0;
        Some(self.rest.each_mut().map(|rest| {
            let (line, below) = std::mem::take(rest).split_at_mut(self.width);
            // Memory is read before a part of it is written.
            cache::fetch(cast_slice(below.get(..self.width).unwrap_or_default()));
            *rest = below;
            let (inside, padding) = line.split_at_mut(width.min(line.len()));
            fill(padding, self.normalisation.of(0, plane));
            plane += 1;
            inside
        }))
    }

    /// Writes the next line of each plane, and padding where `pixels` is shorter.
    pub(super) fn push(&mut self, pixels: &[Pixel]) {
        let Some(lines) = self.line(pixels.len()) else {
            return;
        };
        for (channel, line) in self.channels.iter().zip(lines) {
            normalise(pixels, channel, line);
        }
    }

    /// Writes the next line of each plane from `width` pixels of a scaled line, and padding beyond.
    pub(super) fn mix(&mut self, line: &Line<'_>, width: usize) {
        if let Some(lines) = self.line(width) {
            mix(line, &self.channels, lines);
        }
    }

    /// Fills what is left with padding.
    pub(super) fn pad(self) {
        for (plane, rest) in self.rest.into_iter().enumerate() {
            fill(rest, self.normalisation.of(0, plane));
        }
    }
}

/// Writes one normalised channel of a line.
#[multiversion(targets = "simd")]
fn normalise(pixels: &[Pixel], channel: &Channel, out: &mut [f32]) {
    for (out, pixel) in out.iter_mut().zip(pixels) {
        *out = channel.of(*pixel);
    }
}

/// Mixes the two rows of a line and writes its normalised channels, without a line of bytes in between.
#[multiversion(targets = "simd")]
fn mix(line: &Line<'_>, channels: &[Channel; 3], out: [&mut [f32]; 3]) {
    match_target! {
        "x86_64+avx512f+avx512bw" => {
            blocks(line, channels, out, |rows, weights| point::x86::mix_512(rows, weights))
        },
        "x86_64+avx2" => {
            blocks(line, channels, out, |rows, weights| point::x86::mix_256(rows, weights))
        },
        _ => blocks(line, channels, out, point::mix),
    }
}

#[inline(always)]
fn blocks(
    line: &Line<'_>,
    channels: &[Channel; 3],
    out: [&mut [f32]; 3],
    mix: impl Fn([&Block; 2], &Weights) -> [Pixel; BLOCK],
) {
    let [upper, lower] = line.rows;
    let [first, second, third] = out.map(|line| line.as_chunks_mut::<BLOCK>());
    let outs = first.0.iter_mut().zip(second.0).zip(third.0);
    for ((upper, lower), ((first, second), third)) in upper.iter().zip(lower).zip(outs) {
        let pixels = mix([upper, lower], &line.weights);
        for (channel, out) in channels.iter().zip([first, second, third]) {
            // `pixels.map` is now and then a call to a function without this one's instructions: twice the time.
            for (out, pixel) in out.iter_mut().zip(pixels) {
                *out = channel.of(pixel);
            }
        }
    }
    // The last block may be wider than what is left of the line.
    if let (Some(upper), Some(lower)) = (upper.last(), lower.last()) {
        let pixels = mix([upper, lower], &line.weights);
        for (channel, out) in channels.iter().zip([first.1, second.1, third.1]) {
            for (out, pixel) in out.iter_mut().zip(pixels) {
                *out = channel.of(pixel);
            }
        }
    }
}

/// Fills with one value.
#[multiversion(targets = "simd")]
fn fill(out: &mut [f32], value: f32) {
    if value.to_bits() == 0 {
        // The system's way to clear memory need not read it first.
        bytemuck::cast_slice_mut::<f32, u8>(out).fill(0);
    } else {
        out.fill(value);
    }
}

/// Gives a line of a picture four bytes a pixel.
#[multiversion(targets = "simd")]
pub(super) fn widen(line: &[u8], out: &mut [Pixel]) {
    for (out, pixel) in out.iter_mut().zip(line.as_chunks::<3>().0) {
        *out = [pixel[0], pixel[1], pixel[2], 0];
    }
}
