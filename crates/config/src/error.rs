//! Errors in a configuration.

#![expect(missing_docs, reason = "the messages say what the fields are")]

use std::{io, path::PathBuf};

use super::origin::Origin;

/// Why a configuration cannot be used. No message contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file is missing or cannot be read.
    #[error("cannot read {}: {source}; name a file that exists and can be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The configuration file is not a YAML mapping.
    #[error("{} is not a YAML mapping: {message}", path.display())]
    Yaml { path: PathBuf, message: String },
    /// A line of `.env` cannot be parsed. The message does not show the line, because it may contain a secret.
    #[error("{}: cannot parse the line after {after}; write NAME=value, with quotes around a value with spaces", path.display())]
    Dotenv { path: PathBuf, after: String },
    /// A variable that the configuration reads is not Unicode.
    #[error("the environment variable {name} is not valid UTF-8; set it to UTF-8 text or unset it")]
    NotUnicode { name: String },
    /// The built-in defaults do not match the types. This is a bug in the program.
    #[error("the built-in defaults are not valid: {0}")]
    Defaults(String),
    /// All settings that are unknown or have values that are not allowed.
    #[error("the configuration is not valid:{}", lines(.0))]
    Invalid(Vec<SettingError>),
}

/// One error in a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// A value has the wrong type or is out of range. The message shows it as JSON, unless it is a secret.
    #[error("{key} is {value} (from {origin}); allowed: {allowed}")]
    Value {
        key: String,
        value: String,
        origin: Origin,
        allowed: String,
    },
    /// A setting does not exist. The name is a key of a file, or a variable of `.env` or the environment.
    #[error("{name} (in {place}) is not a setting{}", did_you_mean(.suggestion))]
    Unknown {
        name: String,
        place: String,
        suggestion: Option<String>,
    },
    /// A value is in the place of a section.
    #[error("{key} (in {}) is a section; put its settings under it", path.display())]
    NotASection { key: String, path: PathBuf },
    /// Two variables of one layer set one setting to different values.
    #[error("{first} and {second} both set {key}, to different values; keep one of them")]
    Conflict {
        key: String,
        first: Origin,
        second: Origin,
    },
}

fn lines(problems: &[SettingError]) -> String {
    let line = |problem| format!("\n  {problem}");
    problems.iter().map(line).collect()
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean {name}?"),
        None => "; `facescan config --template` lists all settings".to_owned(),
    }
}
