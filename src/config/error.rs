//! What is wrong with a configuration.

use std::{io, path::PathBuf};

use super::Origin;

/// Why a configuration cannot be used. No message holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file is missing or cannot be read.
    #[error("cannot read {path}: {source}; name a file that exists and can be read", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration file is not a YAML mapping.
    #[error("{path} is not a YAML mapping: {message}", path = path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// Why, with the line and column.
        message: String,
    },
    /// A line of `.env` cannot be parsed. The line itself may hold a secret, so that it is not shown.
    #[error("{path}: cannot parse the line after {after}; write NAME=value, with quotes around a value with spaces", path = path.display())]
    Dotenv {
        /// The file.
        path: PathBuf,
        /// The last name that could be read, or "the start".
        after: String,
    },
    /// A variable that the configuration reads is not Unicode.
    #[error("the environment variable {name} is not valid UTF-8")]
    NotUnicode {
        /// The variable.
        name: String,
    },
    /// The defaults built into the binary contradict the types: a defect of this program.
    #[error("the built-in defaults are not valid: {0}")]
    Defaults(String),
    /// Settings that are unknown or have values that are not allowed, all of them.
    #[error("the configuration is not valid:{}", list(.0))]
    Invalid(Vec<Problem>),
}

/// One thing wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A value is of the wrong type or out of range.
    #[error("{key} is {value} (from {origin}); allowed: {allowed}")]
    Value {
        /// The full key.
        key: String,
        /// The value as JSON; for a secret, that it is hidden.
        value: String,
        /// Where the value came from.
        origin: Origin,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A setting that does not exist.
    #[error("{name} (in {place}) is no setting{}", did_you_mean(.suggestion))]
    Unknown {
        /// The key, or the name of the variable.
        name: String,
        /// The file, `.env` or the environment.
        place: String,
        /// The setting that was probably meant.
        suggestion: Option<String>,
    },
    /// A value stands where a section belongs.
    #[error("{key} (in {path}) is a section; put its settings under it", path = path.display())]
    NotASection {
        /// The section.
        key: String,
        /// The file.
        path: PathBuf,
    },
    /// Two names of one setting have different values.
    #[error("{first} and {second} both set {key}, to different values; keep one of them")]
    Conflict {
        /// The full key.
        key: String,
        /// The one variable.
        first: Origin,
        /// The other.
        second: Origin,
    },
}

fn list(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| format!("\n  {problem}"))
        .collect()
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean {name}?"),
        None => "; configs/config.yaml lists them all".to_owned(),
    }
}
