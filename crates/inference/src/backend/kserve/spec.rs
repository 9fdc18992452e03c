//! The part of a registry entry that describes a remote model.

use std::{fmt, time::Duration};

use reqwest::Url;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

/// A model on a server that implements the Open Inference Protocol (KServe v2) over HTTP: `remote:` in a registry
/// entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteSpec {
    /// The server's address, before `/v2`.
    pub url: BaseUrl,
    /// The model's name on the server.
    pub model: String,
    /// Its version. If absent, the server chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Time limit of one run in milliseconds, including retries and the pauses between them: 1 to 600,000.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// Time limit for establishing a connection, in milliseconds: 1 to 600,000.
    #[serde(default = "default_connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// The maximum number of retries after a transient failure: 0 to 10.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// The largest response that is read, in bytes: 1,024 to 1,073,741,824.
    #[serde(default = "default_max_response_bytes")]
    pub max_response_bytes: usize,
    /// The environment variable that holds the bearer token. If absent, no token is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
}

fn default_timeout_ms() -> u64 {
    10_000
}

fn default_connect_timeout_ms() -> u64 {
    1_000
}

fn default_retries() -> u32 {
    2
}

fn default_max_response_bytes() -> usize {
    16 << 20
}

/// The largest time limit.
const MAX_WAIT_MS: u64 = 600_000;

impl RemoteSpec {
    /// Checks the constraints that the types do not express.
    ///
    /// # Errors
    /// Returns the first field with an invalid value, and the values that it allows.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let is_wait = |ms: u64| (1..=MAX_WAIT_MS).contains(&ms);
        let wait = format!("allowed: 1 to {MAX_WAIT_MS}");
        for (field, holds, allowed) in [
            ("model", is_segment(&self.model), SEGMENT),
            (
                "version",
                self.version.as_deref().is_none_or(is_segment),
                SEGMENT,
            ),
            ("timeout_ms", is_wait(self.timeout_ms), &wait),
            (
                "connect_timeout_ms",
                is_wait(self.connect_timeout_ms),
                &wait,
            ),
            ("retries", self.retries <= 10, "allowed: 0 to 10"),
            (
                "max_response_bytes",
                (1 << 10..=1 << 30).contains(&self.max_response_bytes),
                "allowed: 1024 to 1073741824",
            ),
            (
                "token_env",
                self.token_env.as_deref().is_none_or(is_variable),
                "allowed: the name of an environment variable",
            ),
        ] {
            if !holds {
                return Err((field, allowed.to_owned()));
            }
        }
        Ok(())
    }

    /// Reads the bearer token from the configured variable, if there is one.
    ///
    /// # Errors
    /// Returns an error if the variable is not set or is empty.
    pub fn token(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<SecretString>, String> {
        let Some(name) = &self.token_env else {
            return Ok(None);
        };
        match variable(name).map(|token| token.trim().to_owned()) {
            Some(token) if !token.is_empty() => Ok(Some(token.into())),
            _ => Err(format!(
                "the environment variable {name} is not set, and token_env names it; set it to the token"
            )),
        }
    }

    /// Returns the time limit of a complete run.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

const SEGMENT: &str = "allowed: a name that is neither empty nor `.` nor `..`";

/// Returns whether a text can be one segment of a path. Other characters are escaped.
fn is_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// A server's address: `http` or `https`, without credentials, query or fragment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// Returns the address of a path below this one. Each segment is escaped.
    pub(super) fn at<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.0.clone();
        // An address with `http` or `https` always has a path that can be extended.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// Returns whether the connection is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Returns whether the connection is encrypted, or stays on this machine.
    pub(super) fn is_private(&self) -> bool {
        self.is_encrypted()
            || self.0.host_str().is_some_and(|host| {
                let host = host.trim_matches(['[', ']']);
                host == "localhost"
                    || host
                        .parse::<std::net::IpAddr>()
                        .is_ok_and(|address| address.is_loopback())
            })
    }
}

impl TryFrom<String> for BaseUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // Errors leave out the text, because it may contain a password.
        let url = Url::parse(&text)
            .map_err(|error| format!("the address of a model server cannot be read: {error}"))?;
        let wrong = if !matches!(url.scheme(), "http" | "https") {
            "is neither http nor https"
        } else if !url.username().is_empty() || url.password().is_some() {
            "has credentials; use token_env"
        } else if url.query().is_some() || url.fragment().is_some() {
            "has a query or a fragment"
        } else {
            return Ok(Self(url));
        };
        Err(format!("the address of a model server {wrong}"))
    }
}

impl From<BaseUrl> for String {
    fn from(url: BaseUrl) -> Self {
        url.0.into()
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn spec(yaml: &str) -> Result<RemoteSpec, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_and_a_model_are_enough() {
        let spec = spec("url: http://models:8000/\nmodel: clip").unwrap();
        assert_eq!(spec.check(), Ok(()));
        assert_eq!(
            (spec.timeout_ms, spec.connect_timeout_ms, spec.retries),
            (10_000, 1_000, 2)
        );
        assert_eq!(spec.url.to_string(), "http://models:8000");
        assert_eq!(spec.token(|_| None).unwrap().map(|_| ()), None);
    }

    #[test]
    fn fields_that_are_unknown_are_refused() {
        let error = spec("url: http://models\nmodel: clip\ntoken: secret").unwrap_err();
        assert!(error.contains("token"), "{error}");
    }

    #[test]
    fn an_address_carries_no_secrets_and_nothing_behind_its_path() {
        for (url, says) in [
            ("ftp://models", "neither http nor https"),
            ("http://user:hunter2@models", "token_env"),
            ("http://models/?a=b", "query"),
            ("models:8000", "neither http nor https"),
            ("/v2", "cannot be read"),
        ] {
            let error = BaseUrl::try_from(url.to_owned()).unwrap_err();
            assert!(error.contains(says), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn names_are_escaped_parts_of_the_path() {
        let base = BaseUrl::try_from("https://models/behind/".to_owned()).unwrap();
        let url = base.at(["v2", "models", "a/b?c"]);
        assert_eq!(url.as_str(), "https://models/behind/v2/models/a%2Fb%3Fc");
    }

    #[test]
    fn an_unencrypted_connection_to_another_machine_is_recognized() {
        for (url, is_private) in [
            ("http://models", false),
            ("https://models", true),
            ("http://127.0.0.1:8000", true),
            ("http://[::1]:8000", true),
            ("http://localhost", true),
        ] {
            let base = BaseUrl::try_from(url.to_owned()).unwrap();
            assert_eq!(base.is_private(), is_private, "{url}");
        }
    }

    #[test]
    fn ranges_are_checked_by_field() {
        for (more, field) in [
            ("model: ..", "model"),
            ("model: m\nversion: ''", "version"),
            ("model: m\ntimeout_ms: 0", "timeout_ms"),
            ("model: m\nconnect_timeout_ms: 600001", "connect_timeout_ms"),
            ("model: m\nretries: 11", "retries"),
            ("model: m\nmax_response_bytes: 1", "max_response_bytes"),
            ("model: m\ntoken_env: ''", "token_env"),
        ] {
            let spec = spec(&format!("url: http://models\n{more}")).unwrap();
            assert_eq!(spec.check().unwrap_err().0, field);
        }
    }

    #[test]
    fn a_token_is_in_the_variable_that_is_named() {
        let spec = spec("url: http://models\nmodel: m\ntoken_env: MODELS_TOKEN").unwrap();
        let token = spec
            .token(|name| (name == "MODELS_TOKEN").then(|| "abc\n".to_owned()))
            .unwrap()
            .unwrap();
        assert_eq!(token.expose_secret(), "abc");
        for missing in [None, Some(" ".to_owned())] {
            let error = spec.token(|_| missing.clone()).unwrap_err();
            assert!(error.contains("MODELS_TOKEN"), "{error}");
        }
    }
}
