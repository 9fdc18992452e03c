//! The origin of each value.

use std::{collections::BTreeMap, fmt, path::PathBuf};

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The defaults built into the binary.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// A variable in `.env`, with its name.
    Dotenv(String),
    /// A variable of the environment, with its name.
    Env(String),
    /// An option of the command line, with its name.
    Option(&'static str),
    /// Another setting that sets this one by default.
    Implied(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Dotenv(name) => write!(f, ".env:{name}"),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::Option(name) => f.write_str(name),
            Self::Implied(key) => write!(f, "implied by {key}"),
        }
    }
}

/// The origin of every value, by the full key of its setting, such as `detection.min_score`.
pub type Provenance = BTreeMap<String, Origin>;
