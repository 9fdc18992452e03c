//! What is kept of a result.

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};

/// Section `store`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Default of the request option `store`.
    pub enabled: bool,
    /// Whether an image seen before, under the same models and options, is answered from the store.
    pub cache: bool,
    /// Tenant that results are stored under.
    pub tenant: String,
}

pub(super) const RULES: &[Rule] = &[
    Rule::typed("store.enabled", Kind::Flag, "true or false"),
    Rule::typed("store.cache", Kind::Flag, "true or false"),
    Rule::checked(
        "store.tenant",
        Kind::Text,
        "1 to 64 letters, digits, dots, hyphens or underscores",
        |c| {
            let tenant = c.store.tenant.as_bytes();
            (1..=64).contains(&tenant.len())
                && tenant
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(byte))
        },
    ),
];
