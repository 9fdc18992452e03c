//! Where results are stored.

use std::{path::Path, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use super::rule::{Kind, Rule};

/// Section `database`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// The database; `None` is a SQLite file in the data folder: see
    /// [`Config::database_url`](super::Config::database_url). Serialised with its password hidden.
    #[serde(serialize_with = "masked")]
    pub url: Option<SecretString>,
    /// Most connections held open.
    pub max_connections: u32,
    /// Time to wait for a connection, in milliseconds; see [`Database::acquire_timeout`].
    pub acquire_timeout_ms: u64,
    /// Whether the schema is brought up to date at start.
    pub migrate_on_start: bool,
}

impl Database {
    /// Time to wait for a connection before the store counts as unavailable.
    pub fn acquire_timeout(&self) -> Duration {
        Duration::from_millis(self.acquire_timeout_ms)
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule::checked(
        "database.url",
        Kind::Secret,
        "a URL that begins with postgres://, postgresql:// or sqlite:, or null",
        |c| c.database.url.as_ref().is_none_or(is_database_url),
    ),
    Rule::checked(
        "database.max_connections",
        Kind::Yaml,
        "a whole number from 1 to 1000",
        |c| (1..=1000).contains(&c.database.max_connections),
    ),
    Rule::checked(
        "database.acquire_timeout_ms",
        Kind::Yaml,
        "a whole number from 1 to 600000",
        |c| (1..=600_000).contains(&c.database.acquire_timeout_ms),
    ),
    Rule::typed("database.migrate_on_start", Kind::Flag, "true or false"),
];

fn is_database_url(url: &SecretString) -> bool {
    ["postgres://", "postgresql://", "sqlite:"]
        .iter()
        .any(|scheme| {
            url.expose_secret()
                .strip_prefix(scheme)
                .is_some_and(|rest| !rest.is_empty())
        })
}

/// The URL of a SQLite file, which is created when it is missing.
pub(super) fn sqlite_url(file: &Path) -> String {
    // The driver decodes percent signs and cuts the path at the first `?`.
    let path = file
        .to_string_lossy()
        .replace('%', "%25")
        .replace('?', "%3F");
    format!("sqlite://{path}?mode=rwc")
}

fn masked<S: Serializer>(url: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_ref()
        .map(|url| mask_url(url.expose_secret()))
        .serialize(serializer)
}

/// A URL fit to be shown: its password is `***`, and so is every query parameter that could hold one.
///
/// The password ends at the last `@` of the whole URL, not of its authority, so that an unescaped `/`
/// or `?` in a password does not let the rest of it through.
fn mask_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return mask_query(url);
    };
    match rest.rsplit_once('@') {
        Some((user, host)) if !scheme.starts_with("sqlite") => {
            let user = match user.split_once(':') {
                Some((name, _)) => format!("{name}:***"),
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

/// Query parameters that hold no secret. The others are masked, as drivers keep adding some.
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
    fn passwords_are_masked_wherever_they_stand() {
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
