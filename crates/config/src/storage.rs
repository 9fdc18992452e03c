//! The database for results, and which results are stored.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::path::Path;

use garde::Validate;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::{checks::must, masks::masked, milliseconds::Milliseconds};

/// Section `database`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Database {
    /// `None` means a SQLite file: see [`Config::database_url`](crate::Config::database_url). Serialization masks the
    /// password.
    #[garde(inner(custom(must(is_database_url))))]
    #[serde(serialize_with = "masked")]
    pub url: Option<SecretString>,
    #[garde(range(min = 1, max = 1000))]
    pub max_connections: u32,
    #[garde(range(min = 1, max = 600_000))]
    pub acquire_timeout_ms: Milliseconds,
    #[garde(range(min = 1, max = 600_000))]
    pub call_timeout_ms: Milliseconds,
    #[garde(skip)]
    pub migrate_on_start: bool,
}

/// Section `store`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Store {
    #[garde(skip)]
    pub enabled: bool,
    #[garde(skip)]
    pub cache: bool,
    #[garde(length(min = 1, max = 64), custom(must(is_tenant)))]
    pub tenant: String,
}

/// Returns whether a text can be the name of a tenant.
pub fn is_tenant(tenant: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=64).contains(&tenant.len()) && tenant.bytes().all(is_allowed)
}

fn is_database_url(url: &SecretString) -> bool {
    ["postgres://", "postgresql://", "sqlite:"]
        .iter()
        .any(|scheme| {
            url.expose_secret()
                .strip_prefix(scheme)
                .is_some_and(|rest| !rest.is_empty())
        })
}

/// Returns the URL of a SQLite file. A missing file is created.
pub(super) fn sqlite_url(file: &Path) -> String {
    // The driver decodes percent signs and cuts the path at the first `?`.
    let path = file
        .to_string_lossy()
        .replace('%', "%25")
        .replace('?', "%3F");
    format!("sqlite://{path}?mode=rwc")
}
