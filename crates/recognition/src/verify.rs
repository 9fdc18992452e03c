//! Compares two faces: 1:1 verification.

use std::str::FromStr;

use facescan_config::{Config, DetectOptions, DetectionRequest};
use facescan_fields::request_options;
use facescan_imaging::quality::acceptance::Preset;
use facescan_inference::registry::Thresholds;
use facescan_pipeline::{
    admission::Priority,
    core::{
        error::{InvalidOption, PipelineError},
        options::{RequestOptions, RunRequest, StorageRequest},
        scan::{Face, Scan, cosine},
    },
    operation::ScanKind,
    operations::scan::request::{ScanPlan, ScanRequest},
};
use facescan_store::StoredFace;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    calibration::{Calibration, Calibrations, FarEstimate},
    error::RecognitionError,
};

pub use super::side::Side;

/// The maximum length of a vector in a request.
pub const MAX_DIM: usize = 4096;

/// The longest vector space in a request, in characters.
const MAX_VECTOR_SPACE: usize = 64;

/// The faces of an image that are embedded, the largest ones. The chosen face is one of them.
const MAX_CANDIDATES: usize = 16;

/// Which face of an image is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FaceChoice {
    /// The face with the largest box.
    #[default]
    Largest,
    /// The face whose box is nearest to the center of the image.
    Central,
}

impl FaceChoice {
    /// Returns the chosen face of a scan, among those that have a vector.
    pub fn choose(self, scan: Scan) -> Option<Face> {
        let (width, height) = (scan.image.width as f32, scan.image.height as f32);
        let mut faces = scan
            .faces
            .into_iter()
            .filter(|face| face.embedding.is_some());
        match self {
            // The faces are sorted by area.
            Self::Largest => faces.next(),
            Self::Central => faces.min_by(|a, b| {
                let from_center = |face: &Face| {
                    let (x, y) = (face.bbox.x1 + face.bbox.x2, face.bbox.y1 + face.bbox.y2);
                    (x - width).powi(2) + (y - height).powi(2)
                };
                from_center(a).total_cmp(&from_center(b))
            }),
        }
    }
}

impl FromStr for FaceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "largest" => Ok(Self::Largest),
            "central" => Ok(Self::Central),
            _ => Err("expected largest or central".to_owned()),
        }
    }
}

request_options! {
    /// Options of a verification. The settings have the defaults.
    #[schema(as = VerifyOptions)]
    pub struct VerifyRequest {
        /// The false accept rate that the threshold is chosen for. The embedder needs a calibration. `/calibration` has the rates
        /// that it covers.
        #[schema(exclusive_minimum = 0, maximum = 1)]
        pub far: Option<f64>,
        /// The cosine from which the faces match, -1 to 1. Not together with `far`.
        #[schema(minimum = -1, maximum = 1)]
        pub threshold: Option<f32>,
        /// Which face of an image is compared: `largest` (default), or `central` for the one nearest to the center.
        pub face: Option<FaceChoice>,
        /// Whether the images are aligned 112×112 crops. They are not searched for faces.
        pub aligned: Option<bool>,
        /// The preset whose thresholds decide `acceptable`; by default `verify`.
        pub preset: Option<Preset>,
    }
    with {
        detection: DetectionRequest only [min_score, det_size],
        run: RunRequest only [priority, strict_device],
    }
}

impl RequestOptions for VerifyRequest {
    fn priority(&self) -> Option<Priority> {
        self.run.priority
    }
}

/// What the threshold is chosen by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Criterion {
    /// A false accept rate that the caller wants.
    Far(f64),
    /// The false accept rate of the settings.
    DefaultFar(f64),
    /// A cosine.
    Threshold(f32),
}

/// The options of a verification, with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct VerifyPlan {
    /// How each image is scanned.
    pub scan: ScanPlan,
    /// Which face of an image is compared.
    pub face: FaceChoice,
    /// What the threshold is chosen by.
    pub criterion: Criterion,
}

impl VerifyRequest {
    /// Returns what the threshold is chosen by. `default_far` is the rate of the settings. The ranges were checked before.
    ///
    /// # Errors
    /// [`InvalidOption`] if there are a rate and a threshold.
    pub fn criterion(&self, default_far: f64) -> Result<Criterion, InvalidOption> {
        match (self.far, self.threshold) {
            (Some(_), Some(_)) => {
                let detail = "cannot be used together with `threshold`; send one of them";
                Err(InvalidOption::new("far", detail))
            }
            (Some(far), None) => Ok(Criterion::Far(far)),
            (None, Some(cosine)) => Ok(Criterion::Threshold(cosine)),
            (None, None) => Ok(Criterion::DefaultFar(default_far)),
        }
    }

    /// Fills in the defaults. The ranges were checked before. `thresholds` are those of the detector.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
    pub fn resolve(
        self,
        config: &Config,
        thresholds: &Thresholds,
    ) -> Result<VerifyPlan, PipelineError> {
        let criterion = self.criterion(config.recognition.verify_far)?;
        let mut scan = ScanRequest {
            detection: self.detection,
            aligned: self.aligned,
            quality: Some(true),
            preset: Some(self.preset.unwrap_or(Preset::Verify)),
            landmarks: Some(true),
            storage: StorageRequest::new(false),
            run: self.run,
            ..ScanRequest::default()
        };
        let mut scan = scan.resolve(ScanKind::Embed, config, thresholds)?;
        // The choice does not depend on the settings for scans.
        scan.detect = DetectOptions {
            max_faces: Some(MAX_CANDIDATES),
            ..scan.detect.without_limits()
        };
        Ok(VerifyPlan {
            scan,
            face: self.face.unwrap_or_default(),
            criterion,
        })
    }
}

impl VerifyPlan {
    /// Returns the vector of the chosen face of a scan.
    ///
    /// # Errors
    /// [`RecognitionError::NoFaceToSearch`] if no face has one.
    pub fn face_to_search(
        &self,
        vector_space: &str,
        scan: Scan,
    ) -> Result<FaceVector, RecognitionError> {
        let face = self.face.choose(scan);
        let vector = face.and_then(|face| FaceVector::of_found(vector_space, &face));
        vector.ok_or(RecognitionError::NoFaceToSearch)
    }
}

/// A face's vector, of length 1, and its vector space.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceVector {
    /// The vector space.
    pub vector_space: String,
    /// The values.
    pub values: Vec<f32>,
}

impl FaceVector {
    /// Normalizes the values that a caller sent.
    ///
    /// # Errors
    /// [`InvalidOption`] if they are no vector.
    pub fn of_caller(vector_space: String, values: Vec<f32>) -> Result<Self, InvalidOption> {
        if !(1..=MAX_VECTOR_SPACE).contains(&vector_space.chars().count()) {
            let detail = format!("must be from 1 to {MAX_VECTOR_SPACE} characters");
            return Err(InvalidOption::new("vector_space", detail));
        }
        if values.is_empty() || values.len() > MAX_DIM {
            let detail = format!("must have from 1 to {MAX_DIM} values");
            return Err(InvalidOption::new("embedding", detail));
        }
        // In 32 bits the squares of small values would be zero.
        let squares = values.iter().map(|value| f64::from(*value).powi(2));
        let norm = squares.sum::<f64>().sqrt();
        if !norm.is_normal() {
            return Err(InvalidOption::new(
                "embedding",
                "must be finite and not zero",
            ));
        }
        let unit = |value| (f64::from(value) / norm) as f32;
        let values = values.into_iter().map(unit).collect();
        Ok(Self {
            vector_space,
            values,
        })
    }

    /// Takes the vector of a face of a scan. Returns `None` if the face has none.
    pub fn of_found(vector_space: &str, face: &Face) -> Option<Self> {
        let embedding = face.embedding.as_ref()?;
        Some(Self {
            vector_space: vector_space.to_owned(),
            values: embedding.vector.clone(),
        })
    }

    /// Takes the vector of a stored face.
    ///
    /// # Errors
    /// [`RecognitionError::NoVector`] if the face was not embedded.
    pub fn of_stored(face: &StoredFace) -> Result<Self, RecognitionError> {
        let embedding = face.embedding.as_ref();
        let embedding = embedding.ok_or(RecognitionError::NoVector(face.id))?;
        Ok(Self {
            vector_space: embedding.vector_space.clone(),
            values: embedding.vector.clone(),
        })
    }
}

/// The result of a comparison. The command line prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether the faces match.
    #[serde(rename = "match")]
    pub is_match: bool,
    /// The cosine of the vectors.
    pub similarity: f32,
    /// The cosine from which the faces match.
    pub threshold: f32,
    /// The false accept rate at the threshold. `None` if the vector space has no calibration.
    pub far: Option<FarEstimate>,
    /// The vector space of both vectors.
    pub vector_space: String,
}

/// Compares two vectors.
///
/// # Errors
/// Returns an error if the vectors cannot be compared, or if the criterion needs a calibration that does not exist.
pub fn compare(
    a: &FaceVector,
    b: &FaceVector,
    criterion: Criterion,
    calibrations: &Calibrations,
) -> Result<Comparison, RecognitionError> {
    if a.vector_space != b.vector_space {
        return Err(RecognitionError::VectorSpaceMismatch {
            a: a.vector_space.clone(),
            b: b.vector_space.clone(),
        });
    }
    if a.values.len() != b.values.len() {
        let (a, b) = (a.values.len(), b.values.len());
        let detail = format!("`a` has {a} values and `b` has {b}; send vectors of one length");
        return Err(InvalidOption::new("embedding", detail).into());
    }
    let calibration = calibrations.of(&a.vector_space);
    let threshold = threshold(criterion, calibration)?;
    let similarity = cosine(&a.values, &b.values).clamp(-1.0, 1.0);
    Ok(Comparison {
        vector_space: a.vector_space.clone(),
        similarity,
        threshold,
        is_match: similarity >= threshold,
        far: calibration.and_then(|calibration| calibration.far(threshold)),
    })
}

/// Returns the cosine that a criterion chooses.
///
/// # Errors
/// [`InvalidOption`] if the criterion needs a calibration that does not exist, or a rate outside it.
pub fn threshold(
    criterion: Criterion,
    calibration: Option<&Calibration>,
) -> Result<f32, InvalidOption> {
    let far = match criterion {
        Criterion::Threshold(cosine) => return Ok(cosine),
        Criterion::Far(far) | Criterion::DefaultFar(far) => far,
    };
    let Some(calibration) = calibration else {
        let detail = "is needed, because this vector space has no calibration; send one, or make a calibration with \
                      `facescan calibrate`";
        return Err(InvalidOption::new("threshold", detail));
    };
    calibration.threshold(far).ok_or_else(|| {
        let (lowest, highest) = calibration.fars();
        let detail = format!(
            "{far} is outside the calibration, which covers {lowest} to {highest}; send such a rate, or a threshold"
        );
        let option = match criterion {
            Criterion::DefaultFar(_) => "recognition.verify_far",
            _ => "far",
        };
        InvalidOption::new(option, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(vector_space: &str, values: &[f32]) -> FaceVector {
        FaceVector::of_caller(vector_space.to_owned(), values.to_vec()).unwrap()
    }

    fn known() -> Calibrations {
        Calibrations::load(&[]).unwrap()
    }

    #[test]
    fn a_threshold_decides_without_a_calibration() {
        let (a, b) = (vector("c", &[3.0, 4.0]), vector("c", &[4.0, 3.0]));
        let compared = compare(&a, &b, Criterion::Threshold(0.9), &known()).unwrap();
        assert!((compared.similarity - 0.96).abs() < 1e-6);
        assert!(compared.is_match && compared.far.is_none());
        let compared = compare(&a, &b, Criterion::Threshold(0.97), &known()).unwrap();
        assert!(!compared.is_match);
        let error = compare(&a, &b, Criterion::Far(0.001), &known()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("option `threshold`: is needed"),
            "{error}"
        );
    }

    #[test]
    fn values_that_are_no_vector_are_refused() {
        for values in [
            vec![],
            vec![0.0; 4],
            vec![f32::NAN],
            vec![f32::INFINITY],
            vec![1.0; MAX_DIM + 1],
        ] {
            assert!(FaceVector::of_caller("c".to_owned(), values).is_err());
        }
    }
}
