//! How much a response tells of the vectors of enrolled faces.
//!
//! A similarity is the component of an enrolled vector in the direction of the face that was sent. So thresholds have a floor,
//! and thresholds and similarities have steps: neither a low threshold nor many close ones tell more. docs/recognition.md has
//! the arithmetic of what remains.

use crate::calibration::Calibration;

/// The steps in a cosine of 1. The intervals of the thresholds in a calibration are wider than one step.
const STEPS: f32 = 100.0;

/// What a cosine may lack of a step, in steps. It covers the rounding of 32 bits.
const TOLERANCE: f32 = 1e-3;

/// The lowest threshold for vectors whose error rates are not known.
const UNCALIBRATED_FLOOR: f32 = 0.3;

/// Returns a cosine without what is finer than a step.
pub(crate) fn round_down(cosine: f32) -> f32 {
    cosine.mul_add(STEPS, TOLERANCE).floor() / STEPS
}

/// Returns the lowest step that is at least a threshold.
pub(crate) fn round_up(threshold: f32) -> f32 {
    threshold.mul_add(STEPS, -TOLERANCE).ceil() / STEPS
}

/// Returns the lowest threshold at which faces are compared with those of a collection. `max_far` is the highest false accept
/// rate of a search. A rate of 1 allows every threshold.
pub(crate) fn floor(calibration: Option<&Calibration>, max_far: f64) -> f32 {
    if max_far >= 1.0 {
        return -1.0;
    }
    let lowest = |calibration: &Calibration| {
        let beyond = || calibration.points.first().map(|point| point.threshold);
        calibration.extrapolated_threshold(max_far).or_else(beyond)
    };
    round_up(calibration.and_then(lowest).unwrap_or(UNCALIBRATED_FLOOR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::Calibrations;

    #[test]
    fn similarities_are_rounded_down_and_thresholds_up() {
        for (cosine, down, up) in [
            (0.376, 0.37, 0.38),
            (0.37, 0.37, 0.37),
            (0.999_999_9, 1.0, 1.0),
            (1.0, 1.0, 1.0),
            (-0.005, -0.01, 0.0),
            (-1.0, -1.0, -1.0),
        ] {
            assert_eq!(round_down(cosine), down, "{cosine}");
            assert_eq!(round_up(cosine), up, "{cosine}");
        }
    }

    #[test]
    fn a_step_is_a_step_of_itself() {
        for step in -100_i16..=100 {
            let cosine = f32::from(step) / STEPS;
            assert_eq!((round_down(cosine), round_up(cosine)), (cosine, cosine));
        }
    }

    #[test]
    fn the_floor_is_the_threshold_of_the_highest_rate() {
        let known = Calibrations::load(&[]).unwrap();
        let calibration = known.iter().next();
        assert_eq!(floor(calibration, 0.01), 0.31);
        assert_eq!(floor(calibration, 0.5), 0.22, "the table ends at 0.1");
        assert_eq!(floor(None, 0.01), UNCALIBRATED_FLOOR);
        assert_eq!(floor(calibration, 1.0), -1.0);
    }
}
