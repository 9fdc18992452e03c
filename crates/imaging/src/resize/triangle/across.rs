//! Weighing the samples of a line, four pixels at a time.

use multiversion::{multiversion, target::match_target};

use super::{Quad, RGB, windows::Windows};
use crate::resize::view::Axis;

/// Samples that two registers hold.
pub(super) const WINDOW: usize = 32;

/// Taps whose samples are taken from one window.
pub(super) const WINDOW_TAPS: usize = 3;

/// A register's values, which lie in one line of the cache: a load that crosses two takes twice as long.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Register<T>(pub(super) T);

/// The samples that the pixels of a line are made of.
pub(super) struct Columns {
    /// Where each pixel's samples begin, in samples. The last quad repeats the last pixel's.
    pub(super) first: Vec<[u32; 4]>,
    /// As many weights for each quad as the widest window has, each pixel's repeated for its channels.
    pub(super) weights: Vec<Register<[f32; 16]>>,
    pub(super) taps: usize,
    /// Where the first samples of each quad lie from its first pixel's on, when the first [`WINDOW_TAPS`] of every
    /// quad lie in a window.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only shuffles read it")
    )]
    pub(super) near: Option<Vec<Register<[u32; 16]>>>,
}

impl Columns {
    pub(super) fn new(axis: &Axis) -> Self {
        let to = axis.kept.len();
        let windows = Windows::<f32>::new(axis);
        let taps = windows.most().max(1);
        let quads = to.div_ceil(4);
        let mut first = Vec::with_capacity(4 * quads);
        let mut weights = vec![Register([0.0; 16]); quads * taps];
        for (pixel, (start, shares)) in windows.each().enumerate() {
            first.push((start * RGB) as u32);
            let quad = &mut weights[pixel / 4 * taps..];
            for (weights, &share) in quad.iter_mut().zip(shares) {
                weights.0.as_chunks_mut::<4>().0[pixel % 4] = [share; 4];
            }
        }
        first.resize(4 * quads, first.last().copied().unwrap_or_default());
        let first = first.as_chunks::<4>().0.to_vec();
        let near = first
            .iter()
            .map(|quad| {
                let index = std::array::from_fn(|i| quad[i / 4] - quad[0] + i as u32 % 4);
                let last = RGB * (WINDOW_TAPS - 1) + index[15] as usize;
                (last < WINDOW).then_some(Register(index))
            })
            .collect();
        Self {
            first,
            weights,
            taps,
            near,
        }
    }

    /// How many samples beyond a line's last one may be read.
    pub(super) fn reach(&self) -> usize {
        RGB * self.taps + WINDOW
    }
}

/// Weighs the samples of a line.
#[multiversion(targets = "simd")]
pub(super) fn across(line: &[f32], columns: &Columns, out: &mut [Quad]) {
    match_target! {
        "x86_64+avx512f" => match &columns.near {
            Some(near) => super::x86::across_512(line, columns, near, out),
            None => portable(line, columns, out),
        },
        _ => portable(line, columns, out),
    }
}

/// [`across`] for any processor and any scale.
#[inline(always)]
pub(super) fn portable(line: &[f32], columns: &Columns, out: &mut [Quad]) {
    match columns.taps {
        1 => weigh::<1>(line, columns, out),
        2 => weigh::<2>(line, columns, out),
        3 => weigh::<3>(line, columns, out),
        4 => weigh::<4>(line, columns, out),
        5 => weigh::<5>(line, columns, out),
        6 => weigh::<6>(line, columns, out),
        7 => weigh::<7>(line, columns, out),
        8 => weigh::<8>(line, columns, out),
        _ => weigh::<0>(line, columns, out),
    }
}

/// Weighs the samples of a line, `TAPS` a pixel. The usual numbers of taps are known when compiling,
/// which halves the time; 0 stands for any other.
#[inline(always)]
fn weigh<const TAPS: usize>(line: &[f32], columns: &Columns, out: &mut [Quad]) {
    let taps = if TAPS == 0 { columns.taps } else { TAPS };
    let weights = columns.weights.chunks_exact(taps);
    for ((out, first), weights) in out.iter_mut().zip(&columns.first).zip(weights) {
        // Four samples are one load; the fourth belongs to the next pixel and is not looked at.
        // One by one: `array::map` is now and then a call to a function without this one's instructions.
        let pixel = |first: u32| &line[first as usize..][..RGB * taps + 1];
        let [a, b, c, d] = *first;
        let pixels = [pixel(a), pixel(b), pixel(c), pixel(d)];
        let mut sums = [0f32; 16];
        for tap in 0..taps {
            for (pixel, samples) in pixels.iter().enumerate() {
                for channel in 0..4 {
                    let at = 4 * pixel + channel;
                    sums[at] += samples[RGB * tap + channel] * weights[tap].0[at];
                }
            }
        }
        *out = sums;
    }
}
