//! Weighing the samples of a line in whole numbers where they lie far apart: eight source pixels of one pixel at a time.

use multiversion::{multiversion, target::match_target};

use super::{
    RGB,
    across::Register,
    down::{FEW, Weight},
    pairs::{BITS, HALF, WINDOW},
    triangle,
    whole::BLOCK,
};
use crate::imaging::resize::{Pixel, view::Axis, window::windows};

/// Source pixels of which a register holds the samples.
pub(super) const EIGHT: usize = 8;

/// The samples that the pixels of a line are made of.
pub(super) struct Eights {
    /// The sample that each pixel of a block begins with.
    pub(super) first: Vec<[usize; BLOCK]>,
    /// For each pixel the weights of its first eight source pixels, of the next eight, and so on, as [`SHUFFLE`] brings the
    /// samples together.
    pub(super) weights: Vec<Register<[i16; WINDOW]>>,
    /// Eights of source pixels a pixel.
    pub(super) count: usize,
}

/// Where the samples of eight source pixels lie, in bytes of 16 bits each: two at a time, four times a channel. The fourth
/// channel is the third again, which nobody looks at.
pub(super) const SHUFFLE: [u8; 2 * WINDOW] = {
    let mut shuffle = [0; 2 * WINDOW];
    let mut at = 0;
    while at < WINDOW {
        let (channel, pixel) = (at / EIGHT, at % EIGHT);
        let channel = if channel < RGB { channel } else { RGB - 1 };
        let sample = RGB * pixel + channel;
        shuffle[2 * at] = 2 * sample as u8;
        shuffle[2 * at + 1] = 2 * sample as u8 + 1;
        at += 1;
    }
    shuffle
};

impl Eights {
    /// `None` where pixels are made of too many for weights of 16 bits.
    pub(super) fn new(axis: &Axis) -> Option<Self> {
        let (mut firsts, mut shares, mut ends) = (Vec::new(), Vec::new(), vec![0]);
        windows(axis, 1.0, triangle, |start, window| {
            firsts.push(start * RGB);
            i16::add(window, &mut shares);
            ends.push(shares.len());
        });
        let shares: Vec<&[i16]> = ends.windows(2).map(|at| &shares[at[0]..at[1]]).collect();
        let taps = shares.iter().map(|shares| shares.len()).max()?;
        if taps > FEW {
            return None;
        }
        let count = taps.div_ceil(EIGHT);
        let mut weights = Vec::with_capacity(firsts.len().next_multiple_of(BLOCK) * count);
        for shares in shares {
            let first = weights.len();
            weights.resize(first + count, Register([0; WINDOW]));
            for (register, shares) in weights[first..].iter_mut().zip(shares.chunks(EIGHT)) {
                for channel in register.0.as_chunks_mut::<EIGHT>().0 {
                    channel[..shares.len()].copy_from_slice(shares);
                }
            }
        }
        // What is beyond the last pixel is the line's first sample without weight.
        firsts.resize(firsts.len().next_multiple_of(BLOCK), 0);
        weights.resize(firsts.len() * count, Register([0; WINDOW]));
        Some(Self {
            first: firsts.as_chunks().0.to_vec(),
            weights,
            count,
        })
    }

    /// How many samples beyond a line's last one may be read.
    pub(super) fn reach(&self) -> usize {
        RGB * EIGHT * self.count + WINDOW
    }
}

/// Weighs the samples of a line as [`pairs::weigh`](super::pairs::weigh) does.
#[multiversion(targets = "simd")]
pub(super) fn weigh(line: &[i16], eights: &Eights, out: &mut [[Pixel; BLOCK]]) {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vnni" => super::x86::weigh_eights(line, eights, out),
        _ => portable(line, eights, out),
    }
}

/// [`weigh`] for any processor.
#[inline(always)]
pub(super) fn portable(line: &[i16], eights: &Eights, out: &mut [[Pixel; BLOCK]]) {
    let pixels = out.iter_mut().zip(&eights.first);
    let pixels = pixels.flat_map(|(out, first)| out.iter_mut().zip(first));
    for ((out, &first), weights) in pixels.zip(eights.weights.chunks_exact(eights.count)) {
        for (channel, out) in out.iter_mut().enumerate() {
            let mut sum = HALF;
            for (eight, weights) in weights.iter().enumerate() {
                for (at, weight) in weights.0[EIGHT * channel..][..EIGHT].iter().enumerate() {
                    let sample = usize::from(SHUFFLE[2 * (EIGHT * channel + at)]) / 2;
                    let sample = line[first + RGB * EIGHT * eight + sample];
                    sum += i32::from(sample) * i32::from(*weight);
                }
            }
            *out = (sum >> BITS) as u8;
        }
    }
}
