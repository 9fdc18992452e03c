//! Settings with secrets are shown without them.

use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, Serializer};
use url::Url;

/// Serializes a URL of a secret type without its password.
pub(super) fn masked<S: Serializer>(
    url: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    url.as_ref()
        .map(|url| mask_url(url.expose_secret()))
        .serialize(serializer)
}

/// Serializes a URL without its password.
pub(super) fn masked_url<S: Serializer>(
    url: &Option<Url>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    url.as_ref().map(shown).serialize(serializer)
}

/// Returns the text of a URL for messages: without its password and the values of its query.
pub fn shown(url: &Url) -> String {
    mask_url(url.as_str())
}

/// Shows only that there is a secret.
pub(super) fn hidden<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(|_| "***").serialize(serializer)
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
