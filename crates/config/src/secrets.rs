//! The secrets in the settings, so that nothing prints them.

use std::{collections::BTreeSet, env};

use base64::{Engine, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::config::Config;

/// How the names of the variables begin that the clients of databases, object stores and collectors of traces read.
const CLIENTS: [&str; 5] = ["PG", "AWS_", "AZURE_", "GOOGLE_", "OTEL_"];

/// The parts of those names that stand for a secret.
const SECRET_NAMES: [&str; 5] = ["PASSWORD", "SECRET", "TOKEN", "KEY", "HEADERS"];

/// How the names of the parameters of a URL end that are secrets.
const SECRET_PARAMETERS: [&str; 7] = [
    "key",
    "password",
    "secret",
    "sig",
    "signature",
    "token",
    "auth",
];

impl Config {
    /// Returns every text that must not be printed: passwords and tokens of URLs, keys, and values of headers, also as they are
    /// encoded in URLs and in headers for HTTP's basic authentication.
    pub fn secrets(&self) -> BTreeSet<String> {
        let mut secrets = BTreeSet::new();
        let urls = [
            self.database.url.as_ref(),
            self.batches.queue.as_ref(),
            self.audit.heads.as_ref(),
        ];
        let urls = urls.into_iter().flatten().map(SecretString::expose_secret);
        let plain = [
            self.batches.payloads.as_ref(),
            self.traces.endpoint.as_ref(),
            self.qdrant.url.as_ref(),
            self.openid.issuer.as_ref(),
            self.openid.jwks_url.as_ref(),
        ];
        for url in urls.chain(plain.into_iter().flatten().map(Url::as_str)) {
            add_url(url, &mut secrets);
        }
        let texts = [
            self.access.first_key.as_ref(),
            self.traces.authorization.as_ref(),
            self.qdrant.api_key.as_ref(),
            self.batches.queue_token.as_ref(),
            self.audit.secret.as_ref(),
        ];
        let texts = texts.into_iter().flatten();
        secrets.extend(texts.map(|text| text.expose_secret().to_owned()));
        // The value of a header has a scheme before the secret.
        let header = self.traces.authorization.iter();
        secrets.extend(header.flat_map(|text| text.expose_secret().split(' ').map(str::to_owned)));
        let is_secret = |name: &str| {
            CLIENTS.iter().any(|client| name.starts_with(client))
                && SECRET_NAMES.iter().any(|part| name.contains(part))
        };
        let variables = env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            is_secret(&name).then_some(value)
        });
        secrets.extend(variables);
        // `Bearer` is a word of many messages.
        secrets.retain(|text| !["bearer", "basic"].contains(&&*text.to_ascii_lowercase()));
        secrets
    }
}

/// Adds the password of a URL, the user if there is no password, and the values of its query.
fn add_url(url: &str, secrets: &mut BTreeSet<String>) {
    let mut add = |text: &str| {
        secrets.insert(text.to_owned());
        secrets.insert(percent_decode_str(text).decode_utf8_lossy().into_owned());
    };
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    if let Some((user, _)) = rest.rsplit_once('@') {
        match user.split_once(':') {
            Some((_, password)) => add(password),
            // A token of NATS is a user without a password. The user of a database is not a secret.
            None if url.starts_with("nats") || url.starts_with("tls") => add(user),
            None => {}
        }
        let user = percent_decode_str(user).decode_utf8_lossy();
        add(&BASE64_STANDARD.encode(user.as_bytes()));
    }
    if let Ok(url) = Url::parse(url) {
        // The form in which the parser writes it.
        url.password().into_iter().for_each(&mut add);
        for (name, value) in url.query_pairs() {
            let name = name.to_ascii_lowercase();
            // The path of a file is none.
            if name != "sslkey" && SECRET_PARAMETERS.iter().any(|end| name.ends_with(end)) {
                add(&value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secrets_of_a_url_are_known_in_every_encoding() {
        for (url, secret) in [
            ("nats://u:p%40ss-1@host:4222", "p@ss-1"),
            ("nats://u:p%40ss-1@host:4222", "p%40ss-1"),
            ("nats://token-1@host", "token-1"),
            ("postgres://ann:p@ss/w?d@db/faces", "p@ss/w?d"),
            ("postgres:///faces?user=ann&password=hidden", "hidden"),
            ("https://logs.example/intake?DD-API-KEY=hidden", "hidden"),
            (
                "https://u:pass-word@host/",
                &BASE64_STANDARD.encode("u:pass-word"),
            ),
        ] {
            let mut secrets = BTreeSet::new();
            add_url(url, &mut secrets);
            assert!(secrets.contains(secret), "{url}: {secrets:?}");
        }
    }
}
