//! Self-tests: check that a placement computes the same as the CPU. No placement is used before it has passed one. A
//! device that goes down must pass again before it is used.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use image::{Rgb, RgbImage};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    backend::{Backend, BackendError, Batch, Model, Opening, Session},
    placement::{DevicePlacement, Precision},
    tensor::Tensor,
};
use crate::heads::Head;
use facescan_clock::Clock;
use facescan_imaging::tensor::Normalization;

pub(super) use graph::expected_outputs;

mod faces;
mod graph;

/// The allowed difference between a device's outputs and the CPU's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Lowest cosine between an output and the CPU's.
    pub cosine: f64,
    /// Largest difference of their lengths, relative to the CPU's.
    pub length: f64,
}

impl Tolerance {
    /// Returns the tolerance for arithmetic of a precision.
    pub fn of(precision: Precision) -> Self {
        match precision {
            Precision::Full => Self {
                cosine: 0.9999,
                length: 0.001,
            },
            Precision::Reduced => Self {
                cosine: 0.999,
                length: 0.02,
            },
        }
    }
}

/// Rows whose outputs on the CPU are known.
#[derive(Clone, Debug)]
pub struct SelfTest {
    row_shape: Vec<usize>,
    data: Vec<f32>,
    expected: Vec<Tensor>,
    tolerance: Tolerance,
    /// The head of a detector whose outputs are compared by the faces in them.
    head: Option<Head>,
}

/// What the comparison of a detector's faces needs.
#[derive(Clone, Copy, Debug)]
pub struct DetectorInput {
    /// Decodes the outputs.
    pub head: Head,
    /// The normalization of the input.
    pub normalization: Normalization,
}

/// The result of a self-test.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Proof {
    /// The lowest cosine between the device's outputs and the CPU's.
    pub cosine: f64,
    /// The number of the graph's nodes on each provider, as the runtime reports.
    #[schema(value_type = BTreeMap<String, usize>)]
    pub nodes: BTreeMap<String, usize>,
    /// Milliseconds of the first run, compilation included.
    pub first_run_ms: f64,
    /// Milliseconds of one row after it.
    pub row_ms: f64,
}

/// Returns values that resemble an image: smooth, and neither symmetric nor flat.
fn pattern(row_shape: &[usize], rows: usize) -> Vec<f32> {
    let width = row_shape.last().copied().unwrap_or(1).max(1);
    let len: usize = row_shape.iter().product::<usize>() * rows;
    (0..len)
        .map(|i| {
            let (x, y) = ((i % width) as f32, (i / width) as f32);
            let wave = (x * 0.11 + y * 0.031).sin() + (x * 0.027 - y * 0.083).cos();
            (127.5 + 60.0 * wave).round()
        })
        .collect()
}

/// Returns an image of such values.
pub fn image(width: u32, height: u32) -> RgbImage {
    let values = pattern(&[3, width as usize], height as usize);
    let mut values = values.into_iter().map(|value| value as u8);
    let mut next = || values.next().unwrap_or(0);
    RgbImage::from_fn(width, height, |_, _| Rgb([next(), next(), next()]))
}

impl SelfTest {
    /// Computes the expected outputs of `rows` rows on the CPU.
    ///
    /// # Errors
    /// Returns an error if the CPU cannot run the model, or its outputs are not finite.
    pub fn record(
        cpu: &mut dyn Session,
        row_shape: &[usize],
        rows: usize,
        tolerance: Tolerance,
    ) -> Result<Self, BackendError> {
        let probe = Self {
            row_shape: row_shape.to_vec(),
            data: pattern(row_shape, rows),
            expected: Vec::new(),
            tolerance,
            head: None,
        };
        probe.recorded(cpu)
    }

    /// Computes the expected faces of `rows` equal rows on the CPU. The row is a picture with faces.
    ///
    /// # Errors
    /// Returns an error if the CPU cannot run the model, or its outputs are not finite.
    pub fn record_faces(
        cpu: &mut dyn Session,
        row_shape: &[usize; 3],
        rows: usize,
        detector: DetectorInput,
    ) -> Result<Self, BackendError> {
        let size = (row_shape[2] as u32, row_shape[1] as u32);
        let probe = Self {
            row_shape: row_shape.to_vec(),
            data: faces::row(size, &detector.normalization)?.repeat(rows),
            expected: Vec::new(),
            tolerance: Tolerance::of(Precision::Reduced),
            head: Some(detector.head),
        };
        probe.recorded(cpu)
    }

    fn recorded(mut self, cpu: &mut dyn Session) -> Result<Self, BackendError> {
        self.expected = cpu.run(self.batch())?;
        if !all_finite(&self.expected) {
            return Err(BackendError::run("the cpu's own outputs are not finite"));
        }
        Ok(self)
    }

    /// Returns the rows.
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(&self.row_shape, &self.data)
    }

    /// Compares outputs with the CPU's. Returns the lowest cosine, or the lowest overlap of two boxes of a face.
    ///
    /// # Errors
    /// Returns a description of the difference if the outputs do not agree.
    pub fn check(&self, outputs: &[Tensor]) -> Result<f64, String> {
        match (self.head, self.row_shape.as_slice()) {
            (Some(head), &[_, height, width]) => {
                let size = (width as u32, height as u32);
                faces::agree(head, size, outputs, &self.expected)
            }
            _ => agree(outputs, &self.expected, self.tolerance),
        }
    }

    /// Returns the name of the figure that [`check`](Self::check) returns.
    pub fn measure(&self) -> &'static str {
        match self.head {
            Some(_) => "overlap of boxes",
            None => "cosine",
        }
    }

    /// Returns the tolerance of the comparison.
    pub fn tolerance(&self) -> Tolerance {
        self.tolerance
    }
}

/// Returns whether all values are finite.
pub(crate) fn all_finite(outputs: &[Tensor]) -> bool {
    outputs
        .iter()
        .all(|output| output.data.iter().all(|value| value.is_finite()))
}

/// Compares outputs with correct outputs, row by row. Returns the lowest cosine.
///
/// # Errors
/// Returns a description of the difference if the outputs do not agree.
pub fn agree(given: &[Tensor], right: &[Tensor], tolerance: Tolerance) -> Result<f64, String> {
    if given.len() != right.len() {
        return Err(format!(
            "it returns {} outputs, but the cpu returns {}",
            given.len(),
            right.len()
        ));
    }
    let mut least: f64 = 1.0;
    for (given, right) in given.iter().zip(right) {
        let name = &right.name;
        if given.data.len() != right.data.len() {
            return Err(format!("its output {name} has another length"));
        }
        let row_len: usize = right.shape.iter().skip(1).product();
        let rows = given
            .data
            .chunks(row_len.max(1))
            .zip(right.data.chunks(row_len.max(1)));
        for (given, right) in rows {
            let (cosine, length) = compare(given, right);
            if cosine.is_nan() || cosine < tolerance.cosine || length > tolerance.length {
                return Err(format!(
                    "its output {name} has a cosine of {cosine:.5} to the cpu's and differs in length by {:.2} %; \
                     {:.4} and {:.1} % are asked for",
                    length * 100.0,
                    tolerance.cosine,
                    tolerance.length * 100.0
                ));
            }
            least = least.min(cosine);
        }
    }
    Ok(least)
}

/// Returns whether each value differs from its counterpart by at most `limit`. NaN is not within any limit.
pub fn are_near(given: &[f32], right: &[f32], limit: f32) -> bool {
    given
        .iter()
        .zip(right)
        .all(|(given, right)| (given - right).abs() <= limit)
}

/// Returns the cosine of a device's image and the CPU's.
///
/// # Errors
/// Returns a description of the difference if a sample differs by more than one level. One level is allowed, because a
/// device may fuse a product and a sum.
pub fn same_image(given: &RgbImage, right: &RgbImage) -> Result<f64, String> {
    const LEVELS: u8 = 1;
    let pairs = given.as_raw().iter().zip(right.as_raw());
    let most = pairs.map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
    if given.dimensions() != right.dimensions() || most > LEVELS {
        return Err(format!(
            "its image is up to {most} levels from the cpu's; {LEVELS} is allowed"
        ));
    }
    let floats =
        |image: &RgbImage| -> Vec<f32> { image.as_raw().iter().map(|&v| f32::from(v)).collect() };
    Ok(cosine(&floats(given), &floats(right)))
}

/// Returns the cosine of two vectors.
pub fn cosine(given: &[f32], right: &[f32]) -> f64 {
    compare(given, right).0
}

/// Returns the cosine of two vectors, and how much their lengths differ relative to the second's.
fn compare(given: &[f32], right: &[f32]) -> (f64, f64) {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    };
    let (ours, theirs) = (dot(given, given).sqrt(), dot(right, right).sqrt());
    // A zero vector has no direction. The other vector must be as small.
    let cosine = if theirs < 1e-6 {
        if ours < 1e-3 { 1.0 } else { 0.0 }
    } else {
        dot(given, right) / (ours * theirs).max(f64::MIN_POSITIVE)
    };
    (cosine, (ours - theirs).abs() / theirs.max(1e-3))
}

/// Runs a small graph with known outputs at a placement.
///
/// # Errors
/// Returns an error if the placement is not available, or if it returns a wrong result. The error describes the cause.
pub fn prove_placement(
    backend: &dyn Backend,
    placement: DevicePlacement,
    threads: NonZeroUsize,
) -> Result<(), BackendError> {
    backend.check_available(placement)?;
    let graph = graph::model();
    let opening = Opening {
        placement,
        ..Opening::on_cpu(Model::Graph(&graph), threads, 1)
    };
    let mut sessions = backend.open(&opening)?;
    let session = sessions
        .pop()
        .ok_or_else(|| BackendError::unavailable("it opened no session"))?;
    graph::check(session)
}

/// Runs a model's self-test on a session.
///
/// # Errors
/// Returns an error if the run fails, or if the outputs do not agree with the known ones.
pub fn prove(
    session: &mut dyn Session,
    probe: &SelfTest,
    clock: &dyn Clock,
) -> Result<Proof, BackendError> {
    let (outputs, first) = timed(session, probe, clock)?;
    let cosine = probe.check(&outputs).map_err(BackendError::run)?;
    let mut row_ms = f64::MAX;
    for _ in 0..WARM_RUNS {
        row_ms = row_ms.min(time_row(session, probe, clock)?);
    }
    Ok(Proof {
        cosine,
        nodes: session.assignment(),
        first_run_ms: first.as_secs_f64() * 1e3,
        row_ms,
    })
}

/// Runs the rows of a self-test once. Returns the milliseconds of one row.
///
/// # Errors
/// Returns the error of the run.
pub fn time_row(
    session: &mut dyn Session,
    probe: &SelfTest,
    clock: &dyn Clock,
) -> Result<f64, BackendError> {
    let (_, time) = timed(session, probe, clock)?;
    Ok(time.as_secs_f64() * 1e3 / probe.batch().rows().max(1) as f64)
}

fn timed(
    session: &mut dyn Session,
    probe: &SelfTest,
    clock: &dyn Clock,
) -> Result<(Vec<Tensor>, Duration), BackendError> {
    let began = clock.monotonic();
    let outputs = session.run(probe.batch())?;
    Ok((outputs, clock.monotonic().saturating_sub(began)))
}

/// Runs after the first one. The fastest counts.
const WARM_RUNS: usize = 3;

/// Runs each session once, so that it has the memory that it needs for rows of this shape.
///
/// # Errors
/// Returns the error of the first run that fails.
pub fn warm_up<'a>(
    sessions: impl IntoIterator<Item = &'a mut Box<dyn Session>>,
    row_shape: &[usize],
    rows: usize,
) -> Result<(), BackendError> {
    let data = pattern(row_shape, rows);
    let batch = Batch::new(row_shape, &data);
    for session in sessions {
        session.run(batch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(data: &[f32]) -> Vec<Tensor> {
        vec![Tensor {
            name: "out".to_owned(),
            shape: vec![1, data.len()],
            data: data.to_vec(),
        }]
    }

    #[test]
    fn outputs_agree_when_direction_and_length_do() {
        let full = Tolerance::of(Precision::Full);
        let right = tensor(&[1.0, 2.0, 3.0]);
        assert!(agree(&right, &right, full).unwrap() > 0.999_999);
        // Doubled values have the same direction but are wrong.
        for wrong in [
            tensor(&[2.0, 4.0, 6.0]),
            tensor(&[3.0, 2.0, 1.0]),
            tensor(&[1.0, 2.0]),
            tensor(&[f32::NAN, 2.0, 3.0]),
            tensor(&[0.0; 3]),
            Vec::new(),
        ] {
            assert!(agree(&wrong, &right, full).is_err(), "{wrong:?}");
        }
        let rounded = tensor(&[1.01, 2.0, 2.99]);
        assert!(agree(&rounded, &right, full).is_err());
        assert!(agree(&rounded, &right, Tolerance::of(Precision::Reduced)).is_ok());
        assert!(agree(&tensor(&[0.0; 3]), &tensor(&[0.0; 3]), full).is_ok());
        assert!(agree(&tensor(&[1.0; 3]), &tensor(&[0.0; 3]), full).is_err());
    }

    #[test]
    fn nan_is_near_nothing() {
        assert!(are_near(&[1.0, 2.0], &[1.5, 2.0], 0.5));
        assert!(!are_near(&[1.0, f32::NAN], &[1.0, 2.0], 1e9));
        assert!(!are_near(&[1.0, f32::NAN, 3.0], &[1.0, 2.0, 3.0], 1e9));
    }

    #[test]
    fn the_pattern_is_in_range_and_its_rows_differ() {
        let values = pattern(&[3, 8, 8], 2);
        assert!(values.iter().all(|value| (0.0..=255.0).contains(value)));
        assert_ne!(values[..192], values[192..]);
    }
}
