//! Defaults of the quality options.

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};

/// Section `quality`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Thresholds that a face must meet to be acceptable.
    pub preset: QualityPreset,
}

/// A named set of thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QualityPreset {
    /// Pictures that are taken in at scale.
    Ingest,
    /// The picture that a person is enrolled with.
    Enrol,
    /// A picture that is compared with one enrolled.
    Verify,
    /// A picture that is searched for: the most lenient.
    Search,
}

pub(super) const RULES: &[Rule] = &[Rule::typed(
    "quality.preset",
    Kind::Choice,
    "ingest, enrol, verify or search",
)];
