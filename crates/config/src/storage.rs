//! The database for results, and which results are stored.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::{path::Path, time::Duration};

use garde::Validate;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use super::must;

/// Section `database`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Database {
    /// `None` means a SQLite file: see [`Config::database_url`](super::Config::database_url). Serialization masks the
    /// password.
    #[garde(inner(custom(must(is_database_url))))]
    #[serde(serialize_with = "masked")]
    pub url: Option<SecretString>,
    #[garde(range(min = 1, max = 1000))]
    pub max_connections: u32,
    #[garde(range(min = 1, max = 600_000))]
    pub acquire_timeout_ms: u64,
    #[garde(range(min = 1, max = 600_000))]
    pub call_timeout_ms: u64,
    #[garde(skip)]
    pub migrate_on_start: bool,
}

impl Database {
    /// Returns how long to wait for a connection before the store counts as unavailable.
    pub fn acquire_timeout(&self) -> Duration {
        Duration::from_millis(self.acquire_timeout_ms)
    }

    /// Returns how long a call may take before the store counts as unavailable.
    pub fn call_timeout(&self) -> Duration {
        Duration::from_millis(self.call_timeout_ms)
    }
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

pub(super) fn masked<S: Serializer>(
    url: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    url.as_ref()
        .map(|url| mask_url(url.expose_secret()))
        .serialize(serializer)
}

/// Masks the secrets of a URL. It replaces the password and every query parameter that could contain one with `***`.
///
/// The password ends at the last `@` of the whole URL, not of its authority. A password with an unescaped `/` or `?` is
/// therefore masked completely.
pub(super) fn mask_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return mask_query(url);
    };
    match rest.rsplit_once('@') {
        Some((user, host)) if !scheme.starts_with("sqlite") => {
            let user = match user.split_once(':') {
                Some((name, _)) => format!("{name}:***"),
                // A token of NATS is a user without a password.
                None if ["nats", "tls"].contains(&scheme) => "***".to_owned(),
                None => user.to_owned(),
            };
            format!("{scheme}://{user}@{}", mask_query(host))
        }
        _ => format!("{scheme}://{}", mask_query(rest)),
    }
}

fn mask_query(text: &str) -> String {
    let Some((head, query)) = text.split_once('?') else {
        return text.to_owned();
    };
    let shown: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) if !SHOWN_PARAMETERS.contains(&name) => format!("{name}=***"),
            _ => pair.to_owned(),
        })
        .collect();
    format!("{head}?{}", shown.join("&"))
}

/// Query parameters without secrets. All others are masked, because drivers keep adding parameters.
const SHOWN_PARAMETERS: &[&str] = &[
    "application_name",
    "cache",
    "dbname",
    "host",
    "mode",
    "port",
    "sslmode",
    "ssl-mode",
    "user",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_masked_in_every_part_of_a_url() {
        for (url, shown) in [
            (
                "postgres://ann:pw@db:5432/faces",
                "postgres://ann:***@db:5432/faces",
            ),
            ("postgres://ann:p@w@db/faces", "postgres://ann:***@db/faces"),
            ("postgres://ann:p/w@db/faces", "postgres://ann:***@db/faces"),
            ("postgres://ann:p?w@db/faces", "postgres://ann:***@db/faces"),
            (
                "postgres://ann@host:pw@db/faces",
                "postgres://ann@host:***@db/faces",
            ),
            ("postgres://ann@db/faces", "postgres://ann@db/faces"),
            ("nats://token@host:4222", "nats://***@host:4222"),
            (
                "postgres:///faces?user=ann&password=pw&sslmode=require",
                "postgres:///faces?user=ann&password=***&sslmode=require",
            ),
            (
                "sqlite://a@b:c/faces.sqlite?mode=rwc",
                "sqlite://a@b:c/faces.sqlite?mode=rwc",
            ),
            ("sqlite::memory:", "sqlite::memory:"),
        ] {
            assert_eq!(mask_url(url), shown);
        }
    }
}
