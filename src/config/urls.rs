//! Images that a request names by URL.

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};

/// Section `urls`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Urls {
    /// Whether such images are fetched. Always false: without a guard against requests into the private
    /// network, there is no fetcher.
    pub enabled: bool,
}

pub(super) const RULES: &[Rule] = &[Rule::checked(
    "urls.enabled",
    Kind::Flag,
    "false (url intake is not available in this version)",
    |c| !c.urls.enabled,
)];
