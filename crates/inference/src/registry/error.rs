//! Errors of the registry, of a model's file and of its graph.

use std::{fmt::Display, path::PathBuf};

/// The reason why a model cannot be used. Every message about a model names the model and the field.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system reported.
        source: std::io::Error,
    },
    /// A registry file, an entry, or a model's file or graph is not valid, or there is no such model.
    #[error("{0}")]
    Invalid(String),
}

impl RegistryError {
    /// Returns the error of a field, such as `input.mean`. `model` is its registry id, or its number when it has none.
    pub(crate) fn invalid(model: &str, field: &str, reason: impl Display) -> Self {
        Self::Invalid(format!("model `{model}`: field `{field}`: {reason}"))
    }
}
