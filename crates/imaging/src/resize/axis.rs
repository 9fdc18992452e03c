//! One axis of a resize as numbers, for devices that do not run the code beside this file.

use std::ops::Range;

use super::{bicubic, point, triangle, view::Axis, window};

/// The few source samples that each target position is made of, with weights in whole numbers.
///
/// Both lists are `[taps, positions]`: the first sample of every position, then the second of every one, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taps {
    /// Samples a position.
    pub taps: usize,
    /// How many target positions there are.
    pub positions: usize,
    /// Indices of source samples; each is within the axis.
    pub samples: Vec<i32>,
    /// Their weights. A position's add up to one in the fixed point of the method, or to 0 where it is padding.
    pub weights: Vec<i32>,
}

/// OpenCV's `INTER_LINEAR` from `from` samples to `to`: two taps, weights of 11 bits. Where `to` samples are to be cut,
/// `kept` starts within them; where they are to be padded, it reaches beyond.
///
/// # Panics
/// When `from` or `to` is 0.
pub fn bilinear_point(from: u32, to: u32, kept: Range<i64>) -> Taps {
    assert!(from > 0 && to > 0, "an axis has samples");
    let within = |position: i64| position.clamp(0, i64::from(to));
    let inside = within(kept.start)..within(kept.end);
    let axis = Axis {
        old: from,
        new: to,
        kept: inside.start as u32..inside.end as u32,
    };
    let taps: Vec<_> = point::taps(&axis).collect();
    let padding = (inside.start - kept.start) as usize;
    filled(2, kept.count(), |tap, position| {
        let at = taps.get(position.checked_sub(padding)?)?;
        let sample = [at.first, at.second][tap];
        Some((sample, i32::from(at.weights[tap])))
    })
}

/// Pillow's `BICUBIC` from `from` samples to as many or more: four taps, weights of 22 bits.
///
/// # Panics
/// When `from` is 0 or `to` is smaller: shrinking takes more taps.
pub fn bicubic(from: u32, to: u32) -> Taps {
    assert!(0 < from && from <= to, "an axis has samples and grows");
    let windows = bicubic::windows(from, to);
    filled(4, windows.len(), |tap, position| {
        let window = windows.get(position)?;
        Some((window.first + tap, *window.weights.get(tap)?))
    })
}

/// What `tap` gives for every tap and position; where it gives nothing, the first sample with no weight.
fn filled(
    taps: usize,
    positions: usize,
    tap: impl Fn(usize, usize) -> Option<(usize, i32)>,
) -> Taps {
    let each = (0..taps).flat_map(|tap| (0..positions).map(move |position| (tap, position)));
    let (samples, weights) = each
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

/// The antialiased bilinear filter ([`Filter::Bilinear`](super::Filter::Bilinear)) from `from` samples to `to`, as
/// the weight of every sample in every position: `[positions, from]`, row-major. Where `to` samples are to be cut,
/// `kept` starts within them; where they are to be padded, it reaches beyond, and the padding's weights are 0.
///
/// A position's weights add up to 1 to within f32's rounding.
///
/// # Panics
/// When `from` or `to` is 0.
pub fn bilinear(from: u32, to: u32, kept: Range<i64>) -> Vec<f32> {
    assert!(from > 0 && to > 0, "an axis has samples");
    let old = from as usize;
    let mut weights = vec![0.0; kept.clone().count() * old];
    let mut position = 0;
    let axis = Axis::whole(from, to);
    window::windows(&axis, 1.0, triangle::triangle, |first, window| {
        if kept.contains(&position) {
            let row = usize::try_from(position - kept.start).unwrap_or_default();
            let row = &mut weights[row * old + first..][..window.len()];
            for (out, weight) in row.iter_mut().zip(window) {
                *out = *weight as f32;
            }
        }
        position += 1;
    });
    weights
}

/// Fractional bits of the weights of [`bilinear_point`].
pub const POINT_BITS: u32 = point::WEIGHT_BITS;
/// Fractional bits of the weights of [`bicubic()`].
pub const BICUBIC_BITS: u32 = bicubic::FRACTION;

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights of each position.
    fn of(taps: &Taps, position: usize) -> Vec<(i32, i32)> {
        (0..taps.taps)
            .map(|tap| tap * taps.positions + position)
            .map(|at| (taps.samples[at], taps.weights[at]))
            .collect()
    }

    #[test]
    fn taps_are_within_the_axis_and_weigh_one_in_all() {
        for (from, to) in [(1, 1), (1, 9), (2, 3), (7, 7), (150, 600), (251, 502)] {
            for (taps, bits) in [
                (bilinear_point(from, to, 0..i64::from(to)), POINT_BITS),
                (bicubic(from, to), BICUBIC_BITS),
            ] {
                assert_eq!(taps.positions, to as usize);
                assert!(taps.samples.iter().all(|s| (0..from as i32).contains(s)));
                for position in 0..taps.positions {
                    let sum: i32 = of(&taps, position).iter().map(|(_, weight)| weight).sum();
                    assert!((sum - (1 << bits)).abs() <= 2, "{from} to {to}: {sum}");
                }
            }
        }
    }

    #[test]
    fn padding_has_no_weight() {
        let taps = bilinear_point(4, 2, -1..3);
        assert_eq!(of(&taps, 0), [(0, 0), (0, 0)]);
        assert_eq!(of(&taps, 1), [(0, 1024), (1, 1024)]);
        assert_eq!(of(&taps, 3), [(0, 0), (0, 0)]);
        let cut = bilinear_point(4, 2, 1..2);
        assert_eq!((cut.positions, of(&cut, 0)), (1, of(&taps, 2)));
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
    fn the_triangle_is_widened_and_renormalised() {
        // Half the samples: centre 1, reach 2, so weights of 1/4·(1, 3, 3, 1) cut at the edge and made to add up.
        let dense = bilinear(4, 2, 0..2);
        let expected = [3.0, 3.0, 1.0, 0.0, 0.0, 1.0, 3.0, 3.0].map(|w: f32| w / 7.0);
        for (ours, theirs) in dense.iter().zip(expected) {
            assert!((ours - theirs).abs() < 1e-7, "{dense:?}");
        }
    }
}
