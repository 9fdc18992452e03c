//! Weighing the rows of a picture that does not grow, each read once, in numbers of 16 bits.
//!
//! From the centre of a line to that of the next one the weights of the rows fall evenly to nothing for the upper line, and rise
//! as evenly for the lower one. So both are made of the same two sums over the rows in between: their plain one, and their ramp,
//! in which the last row counts once, the one before it twice, and so on. Both take nothing but additions: the ramp is the sum
//! of the plain sums so far.

use std::ops::RangeInclusive;

use multiversion::{multiversion, target::match_target};

use super::across::Register;
use crate::{cache, resize::view::Axis};

/// Fractional bits of the levels: 0 to 255 · 2⁶, give or take what is cut from products.
pub(super) const NARROW_BITS: u32 = 6;

/// How many rows there may be for a line: the ramp of 22 rows of 255 is the largest that fits 16 bits.
const SCALES: RangeInclusive<f64> = 1.0..=22.0;

/// Samples that are summed at a time, few enough for the registers of AVX-512.
pub(super) const BLOCK: usize = 128;

/// Samples of a block in numbers of 16 bits.
pub(super) type Block = Register<[u16; BLOCK]>;

/// The rows between the centres of two lines.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    first: usize,
    pub(super) count: usize,
    /// Rows that would follow below the picture.
    pub(super) beyond: usize,
    pub(super) weights: Weights,
}

/// What the sums are multiplied by, in 65536ths.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    /// For the upper line the ramp, less the sum.
    pub(super) fall: [u16; 2],
    /// For the lower line the sum, less the ramp.
    pub(super) rise: [u16; 2],
    /// By how many bits the sum and the ramp are shifted before, so that they fill their 16.
    pub(super) shifts: [u32; 2],
}

/// The lines of a picture, from the top.
pub(super) struct Ramps<'a> {
    source: &'a [u8],
    stride: usize,
    segments: std::vec::IntoIter<Segment>,
    /// What the rows above the next line's centre add to it.
    rising: Vec<Block>,
}

impl<'a> Ramps<'a> {
    /// The rows of a picture of so many samples a row. `None` where it grows, where sums or weights do not fit 16 bits, and
    /// where rows are short.
    pub(super) fn new(source: &'a [u8], stride: usize, axis: &Axis) -> Option<Self> {
        if stride < BLOCK {
            return None;
        }
        let mut ramps = Self {
            source,
            stride,
            segments: segments(axis)?.into_iter(),
            rising: vec![Register([0; BLOCK]); stride.div_ceil(BLOCK)],
        };
        // Only the second segment ends a line.
        ramps.next(&mut vec![0; stride])?;
        Some(ramps)
    }

    /// Makes the next line of levels of [`NARROW_BITS`] fractional bits; `None` below the last one.
    pub(super) fn next(&mut self, out: &mut [i16]) -> Option<()> {
        self.next_by(weigh, out)
    }

    /// The same by one form of [`weigh`].
    pub(super) fn next_by(
        &mut self,
        weigh: impl FnOnce(&Part<'_>, &mut [Block], &mut [i16]),
        out: &mut [i16],
    ) -> Option<()> {
        let segment = self.segments.next()?;
        let rows_from = |row: usize| self.source.get(row * self.stride..);
        let next = self.segments.as_slice().first();
        let part = Part {
            source: rows_from(segment.first)?,
            ahead: next.map_or(&[], |next| {
                rows_from(next.first).map_or(&[], |rows| &rows[..next.count * self.stride])
            }),
            stride: self.stride,
            segment,
        };
        weigh(&part, &mut self.rising, out);
        Some(())
    }
}

/// The segments above, between and below the centres of the lines; `None` where they grow or something does not fit.
fn segments(axis: &Axis) -> Option<Vec<Segment>> {
    let (old, new) = (f64::from(axis.old), f64::from(axis.new));
    let scale = old / new;
    if !SCALES.contains(&scale) {
        return None;
    }
    let slopes: Vec<Slope> = (axis.kept.start..=axis.kept.end)
        .map(|line| Slope::new(f64::from(line), scale, old))
        .collect();
    let most = slopes
        .iter()
        .map(|slope| slope.count + slope.beyond)
        .max()?;
    let bits = |most: usize| (u32::from(u16::MAX) / (255 * most.max(1) as u32)).checked_ilog2();
    let shifts = [bits(most)?, bits(most * (most + 1) / 2)?];
    // What makes levels of a shifted sum, and of a shifted ramp.
    let [sum, ramp] = shifts.map(|shift| f64::from(1u32 << (NARROW_BITS + 16 - shift)));
    let word = |weight: f64| {
        let weight = weight.round();
        (weight <= f64::from(u16::MAX)).then_some(weight as u16)
    };
    (0..slopes.len())
        .map(|at| {
            let slope = &slopes[at];
            // What all weights of a line add up to. The first segment ends no line, and the last one begins none.
            let upper = at.checked_sub(1).map(|at| slopes[at].rise + slope.fall);
            let lower = slopes.get(at + 1).map(|below| slope.rise + below.fall);
            let upper = 1.0 / upper.unwrap_or(f64::INFINITY);
            let lower = 1.0 / lower.unwrap_or(f64::INFINITY);
            let fall = [ramp / scale, slope.short * sum / scale];
            let rise = [(1.0 + slope.short / scale) * sum, ramp / scale];
            let [falling_ramp, falling_sum] = fall.map(|weight| word(weight * upper));
            let [rising_sum, rising_ramp] = rise.map(|weight| word(weight * lower));
            Some(Segment {
                first: slope.first,
                count: slope.count,
                beyond: slope.beyond,
                weights: Weights {
                    fall: [falling_ramp?, falling_sum?],
                    rise: [rising_sum?, rising_ramp?],
                    shifts,
                },
            })
        })
        .collect()
}

/// Where the weights of rows fall and rise.
struct Slope {
    first: usize,
    count: usize,
    beyond: usize,
    /// How far the lower line's centre lies above that of the row below the last one, in rows: less than one. Rows beyond the
    /// picture count.
    short: f64,
    /// What the weights for the upper line add up to.
    fall: f64,
    /// What the weights for the lower line add up to.
    rise: f64,
}

impl Slope {
    /// That above the centre of a line. Centres are counted from that of the first row.
    fn new(line: f64, scale: f64, rows: f64) -> Self {
        let centre = |line: f64| (line + 0.5) * scale - 0.5;
        let (above, below) = (centre(line - 1.0).ceil(), centre(line).ceil());
        let (first, end) = (above.max(0.0), below.min(rows));
        let (count, beyond) = (end - first, below - end);
        let short = below - centre(line);
        let ramp = count * beyond + count * (count + 1.0) / 2.0;
        let fall = (ramp - short * count) / scale;
        Self {
            first: first as usize,
            count: count as usize,
            beyond: beyond as usize,
            short,
            fall,
            rise: count - fall,
        }
    }
}

/// A segment with its samples.
pub(super) struct Part<'a> {
    /// Begins with them.
    pub(super) source: &'a [u8],
    /// Those of the next segment.
    pub(super) ahead: &'a [u8],
    pub(super) stride: usize,
    pub(super) segment: Segment,
}

impl Part<'_> {
    /// Where each block begins, the last one with some samples of the one before it. A part of the next segment is fetched with
    /// each.
    #[inline(always)]
    pub(super) fn blocks(&self) -> impl Iterator<Item = usize> {
        let last = self.stride - BLOCK;
        let part = (self.ahead.len() / self.stride).max(1) * BLOCK;
        let mut ahead = self.ahead.chunks(part);
        (0..).step_by(BLOCK).map(move |at| {
            cache::fetch(ahead.next().unwrap_or_default());
            last.min(at)
        })
    }

    /// A block's samples of one of the rows.
    #[inline(always)]
    pub(super) fn samples(&self, row: usize, at: usize) -> Option<&[u8; BLOCK]> {
        self.source[row * self.stride + at..].first_chunk()
    }
}

/// Ends a line with a segment, and begins the next one.
#[multiversion(targets = "simd")]
fn weigh(part: &Part<'_>, rising: &mut [Block], out: &mut [i16]) {
    match_target! {
        "x86_64+avx512f+avx512bw" => super::x86::weigh_ramps(part, rising, out),
        _ => portable(part, rising, out),
    }
}

/// [`weigh`] for any processor.
#[inline(always)]
pub(super) fn portable(part: &Part<'_>, rising: &mut [Block], out: &mut [i16]) {
    let Weights { fall, rise, shifts } = part.segment.weights;
    let upper = |sum: u16, weight: u16| ((u32::from(sum) * u32::from(weight)) >> 16) as u16;
    for (at, rising) in part.blocks().zip(rising) {
        let (mut sum, mut ramp) = ([0; BLOCK], [0; BLOCK]);
        let samples = (0..part.segment.count).filter_map(|row| part.samples(row, at));
        for samples in samples {
            for ((sum, ramp), sample) in sum.iter_mut().zip(&mut ramp).zip(samples) {
                *sum += u16::from(*sample);
                *ramp += *sum;
            }
        }
        for (sum, ramp) in sum.iter().zip(&mut ramp) {
            *ramp += part.segment.beyond as u16 * sum;
        }
        let sums = sum.iter().zip(ramp).zip(&mut rising.0);
        for (out, ((sum, ramp), rising)) in out[at..].iter_mut().zip(sums) {
            let (sum, ramp) = (sum << shifts[0], ramp << shifts[1]);
            let falling = upper(ramp, fall[0]).wrapping_sub(upper(sum, fall[1]));
            *out = rising.wrapping_add(falling) as i16;
            *rising = upper(sum, rise[0]).wrapping_sub(upper(ramp, rise[1]));
        }
    }
}
