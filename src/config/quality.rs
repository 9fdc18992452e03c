//! Defaults of the quality options.

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};
use facescan_imaging::quality::acceptance::Preset;

/// Section `quality`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Thresholds that a face must meet to be acceptable.
    pub preset: Preset,
}

pub(super) const RULES: &[Rule] = &[Rule::typed(
    "quality.preset",
    Kind::Choice,
    "ingest, enrol, verify or search",
)];
