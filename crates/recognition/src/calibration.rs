//! The error rates of an embedder: how many pairs of different people reach a cosine.
//!
//! A calibration is a table that was measured on a set of faces whose people are known. It belongs to one vector space. The
//! built-in calibrations are `configs/calibrations.yaml`; the setting `recognition.calibrations` names more files.

pub mod measure;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use facescan_imaging::precision::NumericPrecision;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

const EMBEDDED: &str = include_str!("../../../configs/calibrations.yaml");

/// The error rates of one vector space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The vector space of the vectors.
    pub vector_space: String,
    /// The id of the embedder.
    pub embedder: String,
    /// The id of the detector that found the faces.
    pub detector: String,
    /// The precision in which the vectors were computed. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<NumericPrecision>,
    /// The faces that were compared.
    pub set: CalibrationSet,
    /// The pairs of two faces of one person.
    pub genuine_pairs: u64,
    /// The pairs of faces of two people.
    pub impostor_pairs: u64,
    /// The rows of the table, from the highest FAR to the lowest.
    pub points: Vec<OperatingPoint>,
}

/// A set of faces whose people are known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationSet {
    /// The name of the set.
    pub name: String,
    /// The sha256 of a list of its files: for each file in order, its path in the set, a space, its sha256, and a newline.
    pub sha256: String,
    /// The images in which a face was found.
    pub images: u64,
    /// The images in which no face was found. They are not part of the figures.
    pub without_face: u64,
    /// The people.
    pub people: u64,
}

/// A threshold and its error rates. Each interval covers 95 %, by a bootstrap over people.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatingPoint {
    /// The false accept rate: the share of impostor pairs whose cosine is at least the threshold.
    pub far: f64,
    /// The lower end of the interval of the FAR at this threshold.
    pub far_low: f64,
    /// The upper end.
    pub far_high: f64,
    /// The cosine from which two faces match.
    pub threshold: f32,
    /// The lower end of the interval of the threshold at this FAR.
    pub threshold_low: f32,
    /// The upper end.
    pub threshold_high: f32,
    /// The true accept rate: the share of genuine pairs whose cosine is at least the threshold.
    pub tar: f64,
    /// The lower end of its interval.
    pub tar_low: f64,
    /// The upper end.
    pub tar_high: f64,
}

/// The false accept rate at a cosine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FarEstimate {
    /// The share of pairs of different people that reach the cosine.
    pub value: f64,
    /// The lower end of the interval of 95 %.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether the rate is this value, or one beyond the table.
    pub bound: Bound,
    /// The name of the set that the rate was measured on.
    pub set: String,
    /// The number of pairs of different people in the set.
    pub pairs: u64,
}

/// How a rate relates to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The rate is the value.
    Exact,
    /// The rate is at most the value, which is the lowest one of the table.
    AtMost,
    /// The rate is at least the value, which is the highest one of the table.
    AtLeast,
}

impl Calibration {
    /// Returns the lowest and the highest FAR of the table.
    pub fn fars(&self) -> (f64, f64) {
        let far = |point: Option<&OperatingPoint>| point.map_or(0.0, |point| point.far);
        (far(self.points.last()), far(self.points.first()))
    }

    /// Returns the threshold for a FAR. Returns `None` outside the table.
    ///
    /// Between two rows the logarithm of the FAR is linear in the cosine.
    pub fn threshold(&self, far: f64) -> Option<f32> {
        self.points.windows(2).find_map(|rows| {
            let [upper, lower] = rows else { return None };
            let is_between = (lower.far..=upper.far).contains(&far);
            is_between.then(|| {
                let share = (far / upper.far).ln() / (lower.far / upper.far).ln();
                // Exact at both ends.
                upper.threshold * (1.0 - share) as f32 + lower.threshold * share as f32
            })
        })
    }

    /// Returns a threshold whose FAR is at most `far`, also if `far` is below the table. Returns `None` above the table.
    ///
    /// Below the table, the line through its last two rows goes on. The logarithm of the FAR falls faster and faster with the
    /// cosine, so the FAR there is lower than that of the line. Nobody has measured it.
    pub(crate) fn extrapolated_threshold(&self, far: f64) -> Option<f32> {
        let [.., upper, lower] = &self.points[..] else {
            return None;
        };
        if far >= lower.far {
            return self.threshold(far);
        }
        let decades = (lower.far / far).log10() / (upper.far / lower.far).log10();
        let beyond = decades as f32 * (lower.threshold - upper.threshold);
        Some((lower.threshold + beyond).min(1.0))
    }

    /// Returns the FAR at a cosine.
    pub fn far(&self, cosine: f32) -> Option<FarEstimate> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        if cosine < first.threshold {
            let estimate = self.estimate(|value| value(first), Bound::AtLeast);
            return Some(FarEstimate {
                high: 1.0,
                ..estimate
            });
        }
        let between = self.points.windows(2).find_map(|rows| match rows {
            [upper, lower] if cosine <= lower.threshold => Some((upper, lower)),
            _ => None,
        });
        let Some((upper, lower)) = between else {
            let estimate = self.estimate(|value| value(last), Bound::AtMost);
            return Some(FarEstimate {
                low: 0.0,
                ..estimate
            });
        };
        let share = f64::from((cosine - upper.threshold) / (lower.threshold - upper.threshold));
        let at = |value: fn(&OperatingPoint) -> f64| {
            let (from, to) = (value(upper), value(lower));
            if share <= 0.0 {
                from
            } else if share >= 1.0 {
                to
            } else if from > 0.0 && to > 0.0 {
                from * (to / from).powf(share)
            } else {
                // An interval of few errors can reach zero, which has no logarithm.
                from + (to - from) * share
            }
        };
        let estimate = self.estimate(at, Bound::Exact);
        Some(FarEstimate {
            low: estimate.low.min(estimate.value),
            high: estimate.high.max(estimate.value),
            ..estimate
        })
    }

    /// Returns an estimate whose values `at` computes from a column of the table.
    fn estimate(
        &self,
        at: impl Fn(fn(&OperatingPoint) -> f64) -> f64,
        bound: Bound,
    ) -> FarEstimate {
        FarEstimate {
            value: at(|point| point.far),
            low: at(|point| point.far_low),
            high: at(|point| point.far_high),
            bound,
            set: self.set.name.clone(),
            pairs: self.impostor_pairs,
        }
    }

    /// Returns what is wrong with the table.
    fn fault(&self) -> Option<&'static str> {
        let is_rate = |rate: f64| (0.0..=1.0).contains(&rate);
        let is_point = |point: &OperatingPoint| {
            point.far > 0.0
                && (point.far_low..=point.far_high).contains(&point.far)
                && (point.threshold_low..=point.threshold_high).contains(&point.threshold)
                && [point.far, point.far_low, point.far_high]
                    .iter()
                    .all(|&rate| is_rate(rate))
                && [point.tar, point.tar_low, point.tar_high]
                    .iter()
                    .all(|&rate| is_rate(rate))
                && (-1.0..=1.0).contains(&point.threshold)
        };
        if self.points.len() < 2 {
            return Some("it needs at least two points");
        }
        if !self.points.iter().all(is_point) {
            return Some(
                "a rate is not from 0 to 1, a threshold not from -1 to 1, or a value not in its interval",
            );
        }
        let is_ordered = self
            .points
            .windows(2)
            .all(|rows| rows[0].far > rows[1].far && rows[0].threshold < rows[1].threshold);
        (!is_ordered).then_some("its points are not ordered from the highest FAR to the lowest")
    }
}

/// The known calibrations, at most one for each vector space.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibrations {
    by_vector_space: BTreeMap<String, Calibration>,
}

impl Calibrations {
    /// Reads the built-in calibrations and those of `files`. A later one replaces an earlier one of the same vector space.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or a table is not plausible.
    pub fn load(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut known = Self::default();
        known.add(EMBEDDED, Path::new("configs/calibrations.yaml"))?;
        for path in files {
            let text = fs::read_to_string(path).with_context(|| {
                let path = path.display();
                format!("{path} cannot be read; correct recognition.calibrations")
            })?;
            known.add(&text, path)?;
        }
        Ok(known)
    }

    fn add(&mut self, text: &str, path: &Path) -> anyhow::Result<()> {
        let path = path.display();
        let read: Vec<Calibration> = serde_saphyr::from_str(text).with_context(|| {
            format!("{path} is not a file of calibrations; write it with `facescan calibrate`")
        })?;
        for calibration in read {
            let vector_space = calibration.vector_space.clone();
            if let Some(detail) = calibration.fault() {
                bail!("{path}: the calibration of {vector_space}: {detail}");
            }
            self.by_vector_space.insert(vector_space, calibration);
        }
        Ok(())
    }

    /// Returns the calibration of a vector space.
    pub fn of(&self, vector_space: &str) -> Option<&Calibration> {
        self.by_vector_space.get(vector_space)
    }

    /// Returns all calibrations, in the order of their vector spaces.
    pub fn iter(&self) -> impl Iterator<Item = &Calibration> {
        self.by_vector_space.values()
    }
}

#[cfg(test)]
mod tests;
