//! What each setting allows, in words and as a check.

use std::path::Path;

use super::Config;

/// How a setting is written in an environment variable, where everything is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `true` or `false`; also `1`/`0`, `yes`/`no` and `on`/`off`, in any case.
    Flag,
    /// A number or a list, in YAML.
    Yaml,
    /// One of a few words, in any case.
    Choice,
    /// Text as it stands.
    Text,
    /// Text that is never shown.
    Secret,
}

/// The rule of one setting. There is exactly one for each.
#[derive(Debug)]
pub(super) struct Rule {
    /// The full key, such as `detection.min_score`.
    pub(super) key: &'static str,
    /// How to read it from the environment.
    pub(super) kind: Kind,
    /// What is allowed, in words that finish "allowed: …". `configs/config.yaml` quotes it.
    pub(super) allowed: &'static str,
    /// Whether the value is in range, where its type alone does not say so.
    pub(super) holds: fn(&Config) -> bool,
}

impl Rule {
    /// A rule that its type alone does not enforce.
    pub(super) const fn checked(
        key: &'static str,
        kind: Kind,
        allowed: &'static str,
        holds: fn(&Config) -> bool,
    ) -> Self {
        Self {
            key,
            kind,
            allowed,
            holds,
        }
    }

    /// A rule that the type of the field enforces.
    pub(super) const fn typed(key: &'static str, kind: Kind, allowed: &'static str) -> Self {
        Self::checked(key, kind, allowed, |_| true)
    }

    /// The name of the setting in the environment, such as `FACESCAN__DETECTION__MIN_SCORE`.
    pub(super) fn env_name(&self) -> String {
        format!(
            "{}{}",
            super::PREFIX,
            self.key.replace('.', "__").to_ascii_uppercase()
        )
    }
}

/// Whether a path can name anything: an empty one is a setting left blank.
pub(super) fn is_path(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}
