//! Weighing the samples of a line in pairs of whole numbers, sixteen pixels at a time: for processors that shuffle the bytes of
//! a register, and multiply and add pairs, in one instruction each.

use multiversion::{multiversion, target::match_target};

use super::{
    RGB,
    across::Register,
    ramps::NARROW_BITS,
    whole::BLOCK,
    windows::{WEIGHT_BITS, Windows},
};
use crate::resize::Pixel;

/// Samples that a register holds.
pub(super) const WINDOW: usize = 32;

/// Fractional bits of a weighed level.
pub(super) const BITS: i32 = (NARROW_BITS + WEIGHT_BITS) as i32;

/// Half of a level, so that cutting rounds.
pub(super) const HALF: i32 = 1 << (BITS - 1);

/// Four pixels of a block.
#[derive(Clone, Copy)]
pub(super) struct Four {
    /// The sample that the first of them begins with.
    pub(super) first: usize,
    /// For each channel of each pixel where its first two samples lie from there on, in bytes of 16-bit samples.
    pub(super) shuffle: Register<[u8; 2 * WINDOW]>,
}

/// The samples that the pixels of a line are made of.
pub(super) struct Pairs {
    /// Those of each block.
    pub(super) fours: Vec<[Four; 4]>,
    /// The weights of each four's first two samples, of the next two, and so on; each pixel's repeated for its channels.
    pub(super) weights: Vec<Register<[i16; WINDOW]>>,
    /// Pairs of samples a pixel.
    pub(super) count: usize,
}

impl Pairs {
    /// `None` where the first two samples of four pixels do not fit a register.
    pub(super) fn new(windows: &Windows<i16>) -> Option<Self> {
        let count = windows.most().div_ceil(2);
        let mut pixels: Vec<_> = windows.each().collect();
        // What is beyond the last pixel repeats it.
        let last = *pixels.last()?;
        pixels.resize(pixels.len().next_multiple_of(BLOCK), last);
        let mut weights = Vec::with_capacity(pixels.len() / 4 * count);
        let mut fours = Vec::with_capacity(pixels.len() / 4);
        for pixels in pixels.as_chunks::<4>().0 {
            fours.push(Four::new(pixels.map(|(first, _)| RGB * first))?);
            let first = weights.len();
            weights.resize(first + count, Register([0; WINDOW]));
            for (pixel, (_, shares)) in pixels.iter().enumerate() {
                for (shares, register) in shares.chunks(2).zip(&mut weights[first..]) {
                    let both = [shares[0], shares.get(1).copied().unwrap_or(0)];
                    register.0.as_chunks_mut::<2>().0[4 * pixel..][..4].fill(both);
                }
            }
        }
        let fours = fours.as_chunks().0.to_vec();
        Some(Self {
            fours,
            weights,
            count,
        })
    }

    /// How many samples beyond a line's last one may be read.
    pub(super) fn reach(&self) -> usize {
        2 * RGB * self.count + WINDOW
    }
}

impl Four {
    /// Of the sample that each begins with.
    fn new(pixels: [usize; 4]) -> Option<Self> {
        let first = pixels[0];
        let mut shuffle = [0; 2 * WINDOW];
        for (at, bytes) in shuffle.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            // The fourth channel is the third again, which nobody looks at.
            let sample = pixels[at / 4] - first + (at % 4).min(RGB - 1);
            if sample + RGB >= WINDOW {
                return None;
            }
            let [one, other] = [2 * sample as u8, 2 * (sample + RGB) as u8];
            *bytes = [one, one + 1, other, other + 1];
        }
        Some(Self {
            first,
            shuffle: Register(shuffle),
        })
    }
}

/// Whether this processor has the instructions.
#[multiversion(targets = "simd")]
pub(super) fn are_quick() -> bool {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vnni" => true,
        _ => false,
    }
}

/// Weighs the samples of a line in levels of [`NARROW_BITS`] fractional bits, and rounds to whole ones.
#[multiversion(targets = "simd")]
pub(super) fn weigh(line: &[i16], pairs: &Pairs, out: &mut [[Pixel; BLOCK]]) {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vnni" => super::x86::weigh_pairs(line, pairs, out),
        _ => portable(line, pairs, out),
    }
}

/// [`weigh`] for any processor.
#[inline(always)]
pub(super) fn portable(line: &[i16], pairs: &Pairs, out: &mut [[Pixel; BLOCK]]) {
    let weights = pairs.weights.chunks_exact(4 * pairs.count);
    for ((out, fours), weights) in out.iter_mut().zip(&pairs.fours).zip(weights) {
        let parts = out.as_chunks_mut::<4>().0.iter_mut().zip(fours);
        for ((out, four), weights) in parts.zip(weights.chunks_exact(pairs.count)) {
            for (at, out) in out.as_flattened_mut().iter_mut().enumerate() {
                let mut sum = HALF;
                for (pair, weights) in weights.iter().enumerate() {
                    for tap in [0, 1] {
                        let sample = usize::from(four.shuffle.0[4 * at + 2 * tap]) / 2;
                        let sample = line[four.first + 2 * RGB * pair + sample];
                        sum += i32::from(sample) * i32::from(weights.0[2 * at + tap]);
                    }
                }
                *out = (sum >> BITS) as u8;
            }
        }
    }
}
