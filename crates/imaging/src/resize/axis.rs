//! One axis of a resize as tables of indices and weights, for devices that compute the resize themselves.

use std::ops::Range;

use super::{bicubic, triangle, two_tap, view::Axis, window};

/// The source samples of each target position, with integer weights. Every position has the same small number of
/// samples.
///
/// Both tables are `[taps, positions]`: the first sample of every position, then the second sample of every position,
/// and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taps {
    /// Samples per position.
    pub taps: usize,
    /// The number of target positions.
    pub positions: usize,
    /// Indices of source samples; each is within the axis.
    pub samples: Vec<i32>,
    /// Their weights. The weights of a position add up to one in the method's fixed point, or to 0 where it is padding.
    pub weights: Vec<i32>,
}

/// Returns the tables of OpenCV's `INTER_LINEAR` from `source` samples to `target` samples: two taps, and weights of
/// [`TWO_TAP_BITS`] fractional bits.
///
/// `range` is the range of target positions in the output. It may start after 0 or end before `target`, where the
/// output is cropped, and reach beyond either end, where the output is padded.
///
/// # Panics
/// Panics if `source` or `target` is 0.
pub fn bilinear_two_tap(source: u32, target: u32, range: Range<i64>) -> Taps {
    assert!(source > 0 && target > 0, "an axis has samples");
    let clamp = |position: i64| position.clamp(0, i64::from(target));
    let inside = clamp(range.start)..clamp(range.end);
    let axis = Axis {
        source,
        target,
        range: inside.start as u32..inside.end as u32,
    };
    let taps: Vec<_> = two_tap::taps(&axis).collect();
    let padding = (inside.start - range.start) as usize;
    table(2, range.count(), |tap, position| {
        let at = taps.get(position.checked_sub(padding)?)?;
        let sample = [at.first, at.second][tap];
        Some((sample, i32::from(at.weights[tap])))
    })
}

/// Returns the tables of Pillow's `BICUBIC` from `source` samples to `target` samples: four taps, and weights of
/// [`BICUBIC_BITS`] fractional bits.
///
/// # Panics
/// Panics if `source` is 0 or `target` is smaller than it, because shrinking takes more taps.
pub fn bicubic(source: u32, target: u32) -> Taps {
    assert!(
        0 < source && source <= target,
        "an axis has samples and grows"
    );
    let windows = bicubic::windows(source, target);
    table(BICUBIC_TAPS, windows.len(), |tap, position| {
        let window = windows.get(position)?;
        Some((window.first + tap, *window.weights.get(tap)?))
    })
}

/// Returns the tables of `tap(tap, position)`. For `None`, the tables have the first sample with weight 0.
fn table(
    taps: usize,
    positions: usize,
    tap: impl Fn(usize, usize) -> Option<(usize, i32)>,
) -> Taps {
    let entries = (0..taps).flat_map(|tap| (0..positions).map(move |position| (tap, position)));
    let (samples, weights) = entries
        .map(|(at, position)| tap(at, position).unwrap_or_default())
        .map(|(sample, weight)| (sample as i32, weight))
        .unzip();
    Taps {
        taps,
        positions,
        samples,
        weights,
    }
}

/// Returns the antialiased bilinear filter ([`Filter::Bilinear`](super::Filter::Bilinear)) from `source` samples to
/// `target` samples, as a dense matrix: the weight of every sample in every position, `[positions, source]`, row-major.
///
/// `range` is the range of target positions in the output, as for [`bilinear_two_tap`]. Rows of padding are 0. The
/// other rows add up to 1, to within the rounding of f32.
///
/// # Panics
/// Panics if `source` or `target` is 0.
pub fn bilinear(source: u32, target: u32, range: Range<i64>) -> Vec<f32> {
    assert!(source > 0 && target > 0, "an axis has samples");
    let columns = source as usize;
    let mut weights = vec![0.0; range.clone().count() * columns];
    let mut position = 0;
    let axis = Axis::full(source, target);
    window::windows(&axis, 1.0, triangle::triangle, |first, window| {
        if range.contains(&position) {
            let row = usize::try_from(position - range.start).unwrap_or_default();
            let row = &mut weights[row * columns + first..][..window.len()];
            for (out, weight) in row.iter_mut().zip(window) {
                *out = *weight as f32;
            }
        }
        position += 1;
    });
    weights
}

/// Fractional bits of the weights of [`bilinear_two_tap`].
pub const TWO_TAP_BITS: u32 = two_tap::WEIGHT_BITS;
/// Fractional bits of the weights of [`bicubic()`].
pub const BICUBIC_BITS: u32 = bicubic::WEIGHT_BITS;
/// Taps of [`bicubic()`].
pub const BICUBIC_TAPS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sample and the weight of each tap of a position.
    fn weights_of(taps: &Taps, position: usize) -> Vec<(i32, i32)> {
        (0..taps.taps)
            .map(|tap| tap * taps.positions + position)
            .map(|at| (taps.samples[at], taps.weights[at]))
            .collect()
    }

    #[test]
    fn taps_are_within_the_axis_and_their_weights_add_up_to_one() {
        for (from, to) in [(1, 1), (1, 9), (2, 3), (7, 7), (150, 600), (251, 502)] {
            for (taps, bits) in [
                (bilinear_two_tap(from, to, 0..i64::from(to)), TWO_TAP_BITS),
                (bicubic(from, to), BICUBIC_BITS),
            ] {
                assert_eq!(taps.positions, to as usize);
                assert!(taps.samples.iter().all(|s| (0..from as i32).contains(s)));
                for position in 0..taps.positions {
                    let sum: i32 = weights_of(&taps, position)
                        .iter()
                        .map(|(_, weight)| weight)
                        .sum();
                    assert!((sum - (1 << bits)).abs() <= 2, "{from} to {to}: {sum}");
                }
            }
        }
    }

    #[test]
    fn padding_has_weight_0() {
        let taps = bilinear_two_tap(4, 2, -1..3);
        assert_eq!(weights_of(&taps, 0), [(0, 0), (0, 0)]);
        assert_eq!(weights_of(&taps, 1), [(0, 1024), (1, 1024)]);
        assert_eq!(weights_of(&taps, 3), [(0, 0), (0, 0)]);
        let cropped = bilinear_two_tap(4, 2, 1..2);
        assert_eq!(
            (cropped.positions, weights_of(&cropped, 0)),
            (1, weights_of(&taps, 2))
        );
        let dense = bilinear(4, 2, -1..3);
        assert_eq!(dense.len(), 16);
        assert_eq!(
            (dense[..4].to_vec(), dense[12..].to_vec()),
            (vec![0.0; 4], vec![0.0; 4])
        );
        assert_eq!(dense[4..12], bilinear(4, 2, 0..2));
        assert_eq!(dense[8..12], bilinear(4, 2, 1..2));
    }

    #[test]
    fn the_triangle_is_widened_and_normalized_at_the_edge() {
        // Scale 2: the first center is 1 and the support 2, so the weights are (1, 3, 3, 1) / 8 without the sample
        // before the axis, divided by their sum.
        let dense = bilinear(4, 2, 0..2);
        let expected = [3.0, 3.0, 1.0, 0.0, 0.0, 1.0, 3.0, 3.0].map(|w: f32| w / 7.0);
        for (ours, theirs) in dense.iter().zip(expected) {
            assert!((ours - theirs).abs() < 1e-7, "{dense:?}");
        }
    }
}
