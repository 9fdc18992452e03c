//! The key of a stored result.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::StoredPlan;
use crate::pipeline::{
    Pipeline,
    options::{ScanKind, ScanPlan},
    scan::{ContentHash, Scan},
};
use facescan_imaging::precision::NumericPrecision;
use facescan_inference::device_task::DeviceTask;

/// The version of the results. Increase it when the same bytes, models and options can have another result. Older
/// stored scans are then ignored.
const PIPELINE_VERSION: u32 = 1;

/// Returns a digest of everything that decides the content of a result, except the bytes of the image.
///
/// `precision` is the precision of the vectors.
pub(super) fn scan_key<P: StoredPlan>(
    pipeline: &Pipeline,
    plan: &P,
    precision: Option<NumericPrecision>,
) -> ContentHash {
    let models: BTreeMap<_, _> = plan
        .taking_part()
        .into_iter()
        .map(|operation| (operation.name(), pipeline.models.key(operation, precision)))
        .collect();
    let mut key = json!({
        "version": PIPELINE_VERSION,
        "operation": plan.operation_name(),
        "models": models,
        "background": pipeline.decoding.background,
    });
    key["options"] = plan.key_options();
    Sha256::digest(key.to_string()).into()
}

impl ScanPlan {
    /// Returns the options that decide the content of a scan.
    pub(in crate::pipeline) fn content_options(&self) -> Value {
        // Without `..`, so that the compiler requires a decision for each new option.
        let ScanPlan {
            // The key has its name.
            kind: _,
            detect,
            quality,
            preset,
            aligned,
            // Decides the content only together with other options.
            decode: _,
            // These decide how the scan is run, stored and written, but not its content.
            landmarks: _,
            crops: _,
            embedding_format: _,
            storage: _,
            run: _,
        } = self;
        json!({
            "detect": (!aligned).then_some(detect),
            "preset": quality.then_some(preset),
            "aligned": aligned,
            "reduced_side": self.reduced_side(),
        })
    }

    /// Returns the operation that computes the vectors.
    pub(in crate::pipeline) fn vectors(&self) -> Option<DeviceTask> {
        (self.kind == ScanKind::Embed).then_some(DeviceTask::FaceEmbedding)
    }
}

/// The precisions of the vectors of a scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precisions {
    /// All vectors have this precision.
    Same(Option<NumericPrecision>),
    /// The first vector has this precision, and another vector has another one.
    Mixed(Option<NumericPrecision>),
}

impl Precisions {
    /// Returns the precisions of the vectors of a scan, or `None` if it has no vector.
    pub fn of(scan: &Scan) -> Option<Self> {
        let of_faces = scan.faces.iter().filter_map(|face| face.embedding.as_ref());
        let embeddings = of_faces.chain(&scan.embedding);
        let mut precisions = embeddings.map(|embedding| embedding.precision);
        let first = precisions.next()?;
        Some(if precisions.all(|other| other == first) {
            Self::Same(first)
        } else {
            Self::Mixed(first)
        })
    }

    /// Returns the precision of the first vector.
    pub fn first(self) -> Option<NumericPrecision> {
        match self {
            Self::Same(first) | Self::Mixed(first) => first,
        }
    }
}
