//! What is wrong with a configuration.

#![expect(missing_docs, reason = "the messages say what the fields are")]

use std::{io, path::PathBuf};

use super::Origin;

/// Why a configuration cannot be used. No message holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file is missing or cannot be read.
    #[error("cannot read {}: {source}; name a file that exists and can be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The configuration file is not a YAML mapping.
    #[error("{} is not a YAML mapping: {message}", path.display())]
    Yaml { path: PathBuf, message: String },
    /// A line of `.env` cannot be parsed. The line itself may hold a secret, so that it is not shown.
    #[error("{}: cannot parse the line after {after}; write NAME=value, with quotes around a value with spaces", path.display())]
    Dotenv { path: PathBuf, after: String },
    /// A variable that the configuration reads is not Unicode.
    #[error("the environment variable {name} is not valid UTF-8")]
    NotUnicode { name: String },
    /// The defaults built into the binary contradict the types: a defect of this program.
    #[error("the built-in defaults are not valid: {0}")]
    Defaults(String),
    /// Settings that are unknown or have values that are not allowed, all of them.
    #[error("the configuration is not valid:{}", lines(.0))]
    Invalid(Vec<Problem>),
}

/// One thing wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A value is of the wrong type or out of range. It is shown as JSON, unless it is a secret.
    #[error("{key} is {value} (from {origin}); allowed: {allowed}")]
    Value {
        key: String,
        value: String,
        origin: Origin,
        allowed: String,
    },
    /// A setting that does not exist: a key of a file, or a variable of `.env` or the environment.
    #[error("{name} (in {place}) is no setting{}", did_you_mean(.suggestion))]
    Unknown {
        name: String,
        place: String,
        suggestion: Option<String>,
    },
    /// A value stands where a section belongs.
    #[error("{key} (in {}) is a section; put its settings under it", path.display())]
    NotASection { key: String, path: PathBuf },
    /// Two variables of one layer give one setting different values.
    #[error("{first} and {second} both set {key}, to different values; keep one of them")]
    Conflict {
        key: String,
        first: Origin,
        second: Origin,
    },
}

fn lines(problems: &[Problem]) -> String {
    let line = |problem| format!("\n  {problem}");
    problems.iter().map(line).collect()
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean {name}?"),
        None => "; configs/config.yaml lists them all".to_owned(),
    }
}
