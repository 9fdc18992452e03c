//! Errors of the registry, of a model's file and of its graph.

use std::path::PathBuf;

/// The reason why a model cannot be used. Every variant about a model names the model and the field.
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
    /// A registry file is not valid YAML of the expected form.
    #[error("{}: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, and the position if the parser reports it.
        reason: String,
    },
    /// An entry has an invalid value, or the model's file or graph is not as the entry says.
    #[error("model `{model}`: field `{field}`: {reason}")]
    Invalid {
        /// The registry id, or the entry's number when it has none.
        model: String,
        /// The field's path, such as `input.mean`.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No model has this id.
    #[error("model `{model}` is not in the registry; there are {}", known.join(", "))]
    Unknown {
        /// The requested id.
        model: String,
        /// The known ids.
        known: Vec<String>,
    },
}

impl RegistryError {
    pub(crate) fn invalid(model: &str, field: &str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            model: model.to_owned(),
            field: field.to_owned(),
            reason: reason.into(),
        }
    }
}
