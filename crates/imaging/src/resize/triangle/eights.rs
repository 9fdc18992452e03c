//! Weighing the samples of a line in whole numbers where they lie far apart: eight source pixels of one pixel at a time.

use multiversion::{multiversion, target::match_target};

use super::{
    RGB,
    pairs::{BITS, HALF, WINDOW},
    whole::BLOCK,
    windows::Windows,
};
use crate::resize::Pixel;

/// Source pixels of which a register holds the samples.
pub(super) const EIGHT: usize = 8;

/// Source pixels of a pixel whose weights are within a tenth of a level in numbers of 16 bits.
const FEW: usize = 40;

/// The samples that the pixels of a line are made of.
pub(super) struct Eights {
    /// The sample that each pixel of a block begins with.
    pub(super) first: Vec<[usize; BLOCK]>,
    /// For each pixel the weights of its first eight source pixels, of the next eight, and so on.
    pub(super) weights: Vec<[i16; EIGHT]>,
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
    /// `None` without pixels, and where they are made of too many for weights of 16 bits.
    pub(super) fn new(windows: &Windows<i16>) -> Option<Self> {
        let most = windows.most();
        if !(1..=FEW).contains(&most) {
            return None;
        }
        let count = most.div_ceil(EIGHT);
        // What is beyond the last pixel is the line's first sample without weight.
        let blocks = windows.spans.len().div_ceil(BLOCK);
        let mut first = vec![[0; BLOCK]; blocks];
        let mut weights = vec![[0; EIGHT]; blocks * BLOCK * count];
        let pixels = first
            .as_flattened_mut()
            .iter_mut()
            .zip(weights.chunks_exact_mut(count));
        for ((first, weights), (start, shares)) in pixels.zip(windows.each()) {
            *first = RGB * start;
            weights.as_flattened_mut()[..shares.len()].copy_from_slice(shares);
        }
        Some(Self {
            first,
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
                for (at, weight) in weights.iter().enumerate() {
                    let sample = usize::from(SHUFFLE[2 * (EIGHT * channel + at)]) / 2;
                    let sample = line[first + RGB * EIGHT * eight + sample];
                    sum += i32::from(sample) * i32::from(*weight);
                }
            }
            *out = (sum >> BITS) as u8;
        }
    }
}
