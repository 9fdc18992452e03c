//! Images that a request names by URL.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use garde::Validate;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::{checks::must, milliseconds::Milliseconds};

/// Section `urls`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Urls {
    #[garde(skip)]
    pub enabled: bool,
    #[garde(length(min = 1))]
    pub schemes: Vec<Scheme>,
    #[garde(skip)]
    pub hosts: Vec<HostPattern>,
    #[garde(skip)]
    pub allow_private: bool,
    #[garde(range(min = 1, max = 3_600_000))]
    pub connect_timeout_ms: Milliseconds,
    #[garde(range(min = 1, max = 3_600_000))]
    pub timeout_ms: Milliseconds,
    #[garde(range(max = 20))]
    pub max_redirects: usize,
    #[garde(range(min = 1, max = 1 << 32))]
    pub max_bytes: u64,
    #[garde(range(min = 1, max = 1024))]
    pub max_concurrent: usize,
    #[garde(length(min = 1, max = 256), custom(must(is_printable)))]
    pub user_agent: String,
}

/// Returns whether a text is one of printable ASCII characters.
pub(super) fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Returns whether a URL has a scheme of HTTP.
pub(super) fn is_http(url: &Url) -> bool {
    ["http", "https"].contains(&url.scheme())
}

/// A scheme that may be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// HTTP over TLS.
    Https,
    /// Unencrypted HTTP. Anyone between the server and the host can read and change it.
    Http,
}

impl Scheme {
    /// Returns the name as in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

/// A host such as `example.com`, or all hosts below a domain such as `*.example.com`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct HostPattern(String);

impl HostPattern {
    /// Returns whether the pattern matches a URL's host.
    pub fn matches(&self, host: &Host<&str>) -> bool {
        let host = host.to_string();
        let host = host.strip_suffix('.').unwrap_or(&host);
        match self.0.strip_prefix("*.") {
            None => host == self.0,
            Some(domain) => {
                let below = host.strip_suffix(domain).unwrap_or_default();
                below.len() > 1 && below.ends_with('.')
            }
        }
    }
}

impl TryFrom<String> for HostPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let below = text.strip_prefix("*.");
        let host =
            Host::parse(below.unwrap_or(&text)).map_err(|error| format!("{text:?}: {error}"))?;
        let is_whole = match &host {
            Host::Domain(name) => !name.contains('*') && !name.ends_with('.'),
            _ => below.is_none(),
        };
        let stars = if below.is_some() { "*." } else { "" };
        let pattern = is_whole.then(|| Self(format!("{stars}{host}")));
        pattern.ok_or_else(|| format!("{text:?} is not a host"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, host: &str) -> bool {
        let pattern = HostPattern::try_from(pattern.to_owned()).unwrap();
        let url = url::Url::parse(&format!("https://{host}/")).unwrap();
        pattern.matches(&url.host().unwrap())
    }

    #[test]
    fn a_star_matches_only_hosts_below_the_domain() {
        for (pattern, host) in [
            ("img.example.com", "img.example.com"),
            ("IMG.example.com", "img.EXAMPLE.com."),
            ("*.example.com", "a.example.com"),
            ("*.example.com", "a.b.example.com."),
            ("bücher.example", "xn--bcher-kva.example"),
            ("192.0.2.1", "0xc0.0.2.1"),
            ("[2001:db8::1]", "[2001:db8:0::1]"),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("example.com", "a.example.com"),
            ("*.example.com", "example.com"),
            ("*.example.com", "badexample.com"),
            ("*.example.com", "example.com.evil.test"),
            ("*.example.com", "192.0.2.1"),
            ("192.0.2.1", "192.0.2.2"),
        ] {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }
}
