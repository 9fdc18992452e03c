//! Images that a request names by URL.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Host;

use super::{
    Config,
    rule::{Kind, Rule},
};

/// Section `urls`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Urls {
    /// Whether such images are fetched.
    pub enabled: bool,
    /// The schemes that a URL may have.
    pub schemes: Vec<Scheme>,
    /// The hosts that a URL may name; none is any.
    pub hosts: Vec<HostPattern>,
    /// Whether addresses of private networks and of this machine are connected to.
    pub allow_private: bool,
    /// Time to look up a host and connect to it, in milliseconds; see [`Urls::connect_timeout`].
    pub connect_timeout_ms: u64,
    /// Time for all of one image, in milliseconds; see [`Urls::timeout`].
    pub timeout_ms: u64,
    /// Redirects that are followed.
    pub max_redirects: usize,
    /// Largest image, in bytes; see [`Config::fetched_bytes`].
    pub max_bytes: u64,
    /// Images fetched at a time.
    pub max_concurrent: usize,
    /// What the server calls itself.
    pub user_agent: String,
}

impl Urls {
    /// Time to look up a host and connect to it.
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    /// Time for all of one image, its redirects included.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

impl Config {
    /// Bytes at which the fetch of one image ends: the limit of fetches, or of every image where that is lower.
    pub fn fetched_bytes(&self) -> u64 {
        self.urls.max_bytes.min(self.limits.max_image_bytes)
    }
}

/// A scheme that is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// HTTP over TLS.
    Https,
    /// HTTP that anyone on the way can read and change.
    Http,
}

impl Scheme {
    /// As URLs write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

/// A host, or all hosts below a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    host: Host,
    /// Whether those below it are meant, and not the host itself.
    is_above: bool,
}

impl HostPattern {
    /// Whether a URL's host is meant.
    pub fn matches(&self, host: &Host<&str>) -> bool {
        match (&self.host, host) {
            (Host::Domain(named), Host::Domain(host)) => {
                let host = host.strip_suffix('.').unwrap_or(host);
                if self.is_above {
                    host.strip_suffix(named.as_str())
                        .is_some_and(|below| below.len() > 1 && below.ends_with('.'))
                } else {
                    host == named
                }
            }
            (Host::Ipv4(named), Host::Ipv4(host)) => named == host,
            (Host::Ipv6(named), Host::Ipv6(host)) => named == host,
            _ => false,
        }
    }
}

impl TryFrom<String> for HostPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let below = text.strip_prefix("*.");
        let named = below.unwrap_or(&text);
        let host = Host::parse(named).map_err(|error| format!("{text:?}: {error}"))?;
        let is_whole = match &host {
            Host::Domain(name) => !name.contains('*') && !name.ends_with('.'),
            _ => below.is_none(),
        };
        if is_whole {
            Ok(Self {
                host,
                is_above: below.is_some(),
            })
        } else {
            Err(format!("{text:?} is no host"))
        }
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        let stars = if pattern.is_above { "*." } else { "" };
        format!("{stars}{}", pattern.host)
    }
}

/// An hour.
const LONGEST_MS: u64 = 3_600_000;

pub(super) const RULES: &[Rule] = &[
    Rule::typed("urls.enabled", Kind::Flag, "true or false"),
    Rule::checked(
        "urls.schemes",
        Kind::Yaml,
        "a list of https, http or both",
        |c| !c.urls.schemes.is_empty(),
    ),
    Rule::typed(
        "urls.hosts",
        Kind::Yaml,
        r#"a list of hosts such as "img.example.com" or "*.example.com" ([] = any)"#,
    ),
    Rule::typed("urls.allow_private", Kind::Flag, "true or false"),
    Rule::checked(
        "urls.connect_timeout_ms",
        Kind::Yaml,
        "a whole number from 1 to 3600000",
        |c| (1..=LONGEST_MS).contains(&c.urls.connect_timeout_ms),
    ),
    Rule::checked(
        "urls.timeout_ms",
        Kind::Yaml,
        "a whole number from 1 to 3600000",
        |c| (1..=LONGEST_MS).contains(&c.urls.timeout_ms),
    ),
    Rule::checked(
        "urls.max_redirects",
        Kind::Yaml,
        "a whole number from 0 to 20",
        |c| c.urls.max_redirects <= 20,
    ),
    Rule::checked(
        "urls.max_bytes",
        Kind::Yaml,
        "a whole number from 1 to 4294967296",
        |c| (1..=1 << 32).contains(&c.urls.max_bytes),
    ),
    Rule::checked(
        "urls.max_concurrent",
        Kind::Yaml,
        "a whole number from 1 to 1024",
        |c| (1..=1024).contains(&c.urls.max_concurrent),
    ),
    Rule::checked(
        "urls.user_agent",
        Kind::Text,
        "1 to 256 ASCII characters that can be seen, and spaces",
        |c| {
            let text = c.urls.user_agent.as_bytes();
            (1..=256).contains(&text.len()) && text.iter().all(|byte| (b' '..=b'~').contains(byte))
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, host: &str) -> bool {
        let pattern = HostPattern::try_from(pattern.to_owned()).unwrap();
        let url = url::Url::parse(&format!("https://{host}/")).unwrap();
        pattern.matches(&url.host().unwrap())
    }

    #[test]
    fn a_star_means_what_is_below_and_nothing_that_only_looks_like_it() {
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

    #[test]
    fn what_is_no_host_is_no_pattern() {
        for text in [
            "",
            "*",
            "*.",
            "a.*.com",
            "https://a.com",
            "a.com/b",
            "a.com:80",
            "*.192.0.2.1",
            "a b",
        ] {
            assert!(HostPattern::try_from(text.to_owned()).is_err(), "{text:?}");
        }
    }
}
