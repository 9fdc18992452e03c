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
    /// An entry has an invalid value.
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
    /// The model's file is missing.
    #[error("model `{model}`: field `file`: there is no {}; {hint}", path.display())]
    Missing {
        /// The registry id.
        model: String,
        /// Where it was expected.
        path: PathBuf,
        /// What to do.
        hint: &'static str,
    },
    /// The model's file is not the one in the registry.
    #[error(
        "model `{model}`: field `sha256`: {} has {found}, the registry says {expected}; {hint}",
        path.display()
    )]
    Hash {
        /// The registry id.
        model: String,
        /// The file.
        path: PathBuf,
        /// The registry's sha256.
        expected: String,
        /// The file's sha256.
        found: String,
        /// What to do.
        hint: &'static str,
    },
    /// The model's file has weights in another file.
    #[error(
        "model `{model}`: field `file`: {} has weights in another file, `{location}`, which its sha256 does not cover; save the \
         model as one file",
        path.display()
    )]
    ExternalData {
        /// The registry id.
        model: String,
        /// The file.
        path: PathBuf,
        /// The name of the other file, as the model has it.
        location: String,
    },
    /// The inputs or outputs of the loaded graph do not match the entry.
    #[error(
        "model `{model}`: field `{field}`: the registry expects {expected}, the file has {found}"
    )]
    Signature {
        /// The registry id.
        model: String,
        /// The field's path.
        field: &'static str,
        /// What the entry implies.
        expected: String,
        /// What the graph declares.
        found: String,
    },
}

impl RegistryError {
    pub(super) fn invalid(model: &str, field: &str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            model: model.to_owned(),
            field: field.to_owned(),
            reason: reason.into(),
        }
    }
}
