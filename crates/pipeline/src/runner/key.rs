//! The key of a stored result.

use std::collections::BTreeMap;

use facescan_imaging::precision::NumericPrecision;
use facescan_inference::device_task::DeviceTask;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    Pipeline,
    core::{image_file::ContentHash, scan::Scan},
    plan::Plan,
};

/// The version of the results. Increase it when the same bytes, models and options can have another result. Older
/// stored scans are then ignored.
const PIPELINE_VERSION: u32 = 1;

/// Returns a digest of everything that decides the content of a result, except the bytes of the image.
///
/// `name` is that of the results in the database, `tasks` are those of the plan, and `precision` is that of the vectors.
pub(super) fn scan_key<P: Plan>(
    pipeline: &Pipeline,
    plan: &P,
    name: &str,
    tasks: &[DeviceTask],
    precision: Option<NumericPrecision>,
) -> ContentHash {
    let models: BTreeMap<_, _> = tasks
        .iter()
        .map(|&task| (task.name(), pipeline.models.key(task, precision)))
        .collect();
    let mut key = json!({
        "version": PIPELINE_VERSION,
        "operation": name,
        "models": models,
        "background": pipeline.decoding.background,
    });
    key["options"] = plan.key_options();
    Sha256::digest(key.to_string()).into()
}

/// The precisions of the vectors of a scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Precisions {
    /// All vectors have this precision.
    Same(Option<NumericPrecision>),
    /// The first vector has this precision, and another vector has another one.
    Mixed(Option<NumericPrecision>),
}

impl Precisions {
    /// Returns the precisions of the vectors of a scan, or `None` if it has no vector.
    pub(crate) fn from_scan(scan: &Scan) -> Option<Self> {
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
    pub(crate) fn first(self) -> Option<NumericPrecision> {
        match self {
            Self::Same(first) | Self::Mixed(first) => first,
        }
    }
}
