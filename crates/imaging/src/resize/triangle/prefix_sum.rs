//! Vertical pass by sums of prefix sums, in 16-bit fixed point: every row is read once.
//!
//! # Method
//! Take the rows between the centers of two neighboring target rows, `s` rows apart. Number them from the bottom, `t =
//! 1` for the last one, and let `f < 1` be the distance from the lower center to the row after the last one. Over these
//! rows the triangle of the upper target row falls, and that of the lower one rises:
//!
//! ```text
//! upper weight of row t = (t − f) / s        lower weight of row t = 1 − (t − f) / s
//! ```
//!
//! Both are linear in `t`, so two sums over the rows are enough: the plain sum `S = Σ rowₜ` and the ramp `R = Σ
//! t·rowₜ`. The ramp is the sum of the prefix sums, so both take one addition a sample and no multiplication. Then
//!
//! ```text
//! upper += R / s − S · f / s                 lower = S · (1 + f / s) − R / s
//! ```
//!
//! and each target row is divided by the sum of its weights. A target row is complete when the rows above and below its
//! center have been added.
//!
//! # Error
//! At most 4/64 = 0.0625 levels. `S` and `R` are exact; for a scale of 22, `R` is at most 255 · 22 · 23 / 2 = 64,515,
//! which fits 16 bits. They are shifted to fill 16 bits and multiplied by 16-bit factors, of which the upper halves are
//! kept, with 6 fractional bits. A target row has four such products. Each is off by at most half a unit for the
//! rounded factor; dropping the lower halves adds less than a unit in either direction for each of the two differences.
//! A unit is 1/64 of a level.
//!
//! # CPU
//! AVX-512 F and BW: 128 samples are in registers at a time. The next kernel, [`dot_product`](super::dot_product), needs
//! more features.

mod avx512;

use std::ops::RangeInclusive;

use multiversion::{multiversion, target::match_target};

use super::{Aligned, not_chosen};
use crate::{prefetch::prefetch, resize::view::Axis};

/// Fractional bits of a level: 0 to 255 · 2⁶, plus or minus the error.
pub(super) const LEVEL_BITS: u32 = 6;

/// Source rows per target row. The ramp of 22 rows of level 255 is the largest that fits 16 bits.
const SCALES: RangeInclusive<f64> = 1.0..=22.0;

/// The number of samples that are summed at a time. Their sums fit into the registers of AVX-512.
const BLOCK: usize = 128;

/// A block of samples in 16 bits.
type Block = Aligned<[u16; BLOCK]>;

/// The rows between the centers of two neighboring target rows, and the factors of their sums.
#[derive(Clone, Copy)]
struct Segment {
    interval: Interval,
    factors: Factors,
}

/// The factors of a segment's sums, in 65536ths.
#[derive(Clone, Copy)]
struct Factors {
    /// The factors for the upper target row: of the ramp, and of the sum that is subtracted.
    upper: [u16; 2],
    /// The factors for the lower target row: of the sum, and of the ramp that is subtracted.
    lower: [u16; 2],
    /// Bits by which the sum and the ramp are shifted, so that they fill 16 bits.
    shifts: [u32; 2],
}

/// The target rows of an image, from the top.
pub(super) struct PrefixSum<'a> {
    source: &'a [u8],
    stride: usize,
    segments: std::vec::IntoIter<Segment>,
    /// The part of the next target row that comes from the rows above its center.
    partial: Vec<Block>,
}

impl<'a> PrefixSum<'a> {
    /// Creates the target rows along `axis` of an image with `stride` samples per row. Returns `None` if the axis
    /// grows, if sums or factors do not fit 16 bits, or if a row is shorter than a block.
    pub(super) fn new(source: &'a [u8], stride: usize, axis: &Axis) -> Option<Self> {
        if stride < BLOCK {
            return None;
        }
        let mut sums = Self {
            source,
            stride,
            segments: segments(axis)?.into_iter(),
            partial: vec![Aligned([0; BLOCK]); stride.div_ceil(BLOCK)],
        };
        // The first segment completes no target row.
        sums.next(&mut vec![0; stride])?;
        Some(sums)
    }

    /// Writes the next target row, in levels of [`LEVEL_BITS`] fractional bits. Returns `None` after the last one.
    pub(super) fn next(&mut self, out: &mut [i16]) -> Option<()> {
        let segment = self.segments.next()?;
        let rows_from = |row: usize| self.source.get(row * self.stride..);
        let next = self.segments.as_slice().first().map(|next| next.interval);
        let rows = SegmentRows {
            rows: rows_from(segment.interval.first)?,
            upcoming: next.map_or(&[], |next| {
                rows_from(next.first).map_or(&[], |rows| &rows[..next.count * self.stride])
            }),
            stride: self.stride,
            segment,
        };
        weigh(&rows, &mut self.partial, out);
        Some(())
    }
}

/// Returns the segments above, between and below the centers of the target rows, or `None` if the axis grows or a
/// number does not fit.
fn segments(axis: &Axis) -> Option<Vec<Segment>> {
    let (scale, rows) = (axis.scale(), f64::from(axis.source));
    if !SCALES.contains(&scale) {
        return None;
    }
    let intervals: Vec<Interval> = (axis.range.start..=axis.range.end)
        .map(|row| Interval::new(f64::from(row), scale, rows))
        .collect();
    let most = intervals
        .iter()
        .map(|interval| interval.count + interval.missing)
        .max()?;
    let bits = |most: usize| (u32::from(u16::MAX) / (255 * most.max(1) as u32)).checked_ilog2();
    let shifts = [bits(most)?, bits(most * (most + 1) / 2)?];
    // The factors that turn a shifted sum, and a shifted ramp, into levels.
    let [sum, ramp] = shifts.map(|shift| f64::from(1u32 << (LEVEL_BITS + 16 - shift)));
    let word = |factor: f64| {
        let factor = factor.round();
        (factor <= f64::from(u16::MAX)).then_some(factor as u16)
    };
    (0..intervals.len())
        .map(|at| {
            let interval = &intervals[at];
            // The sums of all weights of both target rows. The first segment has no upper one, the last one no lower
            // one.
            let upper = at
                .checked_sub(1)
                .map(|at| intervals[at].lower_weights + interval.upper_weights);
            let lower = intervals
                .get(at + 1)
                .map(|below| interval.lower_weights + below.upper_weights);
            let upper_share = 1.0 / upper.unwrap_or(f64::INFINITY);
            let lower_share = 1.0 / lower.unwrap_or(f64::INFINITY);
            let upper = [ramp / scale, interval.fraction * sum / scale];
            let lower = [(1.0 + interval.fraction / scale) * sum, ramp / scale];
            let [upper_ramp, upper_sum] = upper.map(|factor| word(factor * upper_share));
            let [lower_sum, lower_ramp] = lower.map(|factor| word(factor * lower_share));
            Some(Segment {
                interval: *interval,
                factors: Factors {
                    upper: [upper_ramp?, upper_sum?],
                    lower: [lower_sum?, lower_ramp?],
                    shifts,
                },
            })
        })
        .collect()
}

/// The source rows between the centers of two neighboring target rows.
#[derive(Clone, Copy)]
struct Interval {
    /// The first row.
    first: usize,
    /// The number of rows, which may be 0 at the edges of the image.
    count: usize,
    /// Rows of the interval that lie below the image.
    missing: usize,
    /// The distance `f` from the lower center to the row after the last one: 0 or more and below 1. The last row may be
    /// a missing one.
    fraction: f64,
    /// The sum of the rows' weights in the upper target row.
    upper_weights: f64,
    /// The sum of the rows' weights in the lower target row.
    lower_weights: f64,
}

impl Interval {
    /// Creates the interval above the center of target row `row`. Positions are counted from the center of the first
    /// source row.
    fn new(row: f64, scale: f64, rows: f64) -> Self {
        let center = |row: f64| (row + 0.5) * scale - 0.5;
        let (above, below) = (center(row - 1.0).ceil(), center(row).ceil());
        let (first, end) = (above.max(0.0), below.min(rows));
        let (count, missing) = (end - first, below - end);
        let fraction = below - center(row);
        let ramp = count * missing + count * (count + 1.0) / 2.0;
        let upper_weights = (ramp - fraction * count) / scale;
        Self {
            first: first as usize,
            count: count as usize,
            missing: missing as usize,
            fraction,
            upper_weights,
            lower_weights: count - upper_weights,
        }
    }
}

/// A segment with its samples.
struct SegmentRows<'a> {
    /// The samples from the first row on; rows after the segment may follow.
    rows: &'a [u8],
    /// The samples of the next segment.
    upcoming: &'a [u8],
    stride: usize,
    segment: Segment,
}

impl SegmentRows<'_> {
    /// Returns the column at which each block starts. The last block may overlap the one before it. Each step
    /// prefetches a part of the next segment.
    #[inline(always)]
    fn blocks(&self) -> impl Iterator<Item = usize> {
        let last = self.stride - BLOCK;
        let part = (self.upcoming.len() / self.stride).max(1) * BLOCK;
        let mut upcoming = self.upcoming.chunks(part);
        (0..).step_by(BLOCK).map(move |column| {
            prefetch(upcoming.next().unwrap_or_default());
            last.min(column)
        })
    }

    /// Returns the samples of a block in one of the rows.
    #[inline(always)]
    fn samples(&self, row: usize, column: usize) -> Option<&[u8; BLOCK]> {
        self.rows[row * self.stride + column..].first_chunk()
    }
}

/// Completes a target row with a segment, and begins the next one.
#[multiversion(targets = "simd")]
fn weigh(rows: &SegmentRows<'_>, partial: &mut [Block], out: &mut [i16]) {
    match_target! {
        "x86_64+avx512f+avx512bw" => avx512::weigh(rows, partial, out),
        _ => not_chosen((rows, partial, out)),
    }
}
