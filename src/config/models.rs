//! Which models are loaded, and from where.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule, is_path};

/// Section `models`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// Folder of the model files that the server loads.
    pub dir: PathBuf,
    /// A registry file that is added to the embedded one.
    pub registry: Option<PathBuf>,
    /// Registry id of the detector. Whether there is such an entry is checked where the registry is read.
    pub detector: String,
    /// Registry id of the embedder. Whether there is such an entry is checked where the registry is read.
    pub embedder: String,
    /// Registry id of the encoder of whole pictures; `None` for none.
    pub encoder: Option<String>,
}

pub(super) const RULES: &[Rule] = &[
    Rule::checked("models.dir", Kind::Text, "a path", |c| {
        is_path(&c.models.dir)
    }),
    Rule::checked("models.registry", Kind::Text, "a path or null", |c| {
        c.models.registry.as_deref().is_none_or(is_path)
    }),
    Rule::checked(
        "models.detector",
        Kind::Text,
        "the id of a model in the registry",
        |c| !c.models.detector.trim().is_empty(),
    ),
    Rule::checked(
        "models.embedder",
        Kind::Text,
        "the id of a model in the registry",
        |c| !c.models.embedder.trim().is_empty(),
    ),
    Rule::checked(
        "models.encoder",
        Kind::Text,
        "the id of an encoder in the registry, or null",
        |c| {
            c.models
                .encoder
                .as_ref()
                .is_none_or(|id| !id.trim().is_empty())
        },
    ),
];
