//! Whether a URL is at a host, however both are spelled.
//!
//! A `source_url` is a text of a caller, so it can be a URL without a scheme, and its host can be spelled in every way that a
//! browser understands.

use std::net::IpAddr;

use url::{Host, Url};

/// How many URLs can be in each other, as in `view-source:blob:https://example.com/1`.
const MAX_NESTED: usize = 4;

/// Returns the one spelling of a host: in lower case, in ASCII, without a dot at the end, with addresses in their usual form.
/// Returns `None` if the text is no host.
pub fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    let host = Host::parse(text)
        .or_else(|_| Host::parse(&format!("[{text}]")))
        .ok()?;
    Some(match host {
        Host::Domain(name) => match name.trim_end_matches('.') {
            "" => return None,
            // Without the dot, it can be an address.
            short if short.len() < name.len() => return canonical(short),
            _ => name,
        },
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => IpAddr::V6(address).to_canonical().to_string(),
    })
}

/// Returns whether a URL is at a host, which [`canonical`] has spelled.
pub(super) fn is_at(url: Option<&str>, host: &str) -> bool {
    url.is_some_and(|url| is_text_at(url, host, MAX_NESTED))
}

fn is_text_at(text: &str, host: &str, nested: usize) -> bool {
    let text = text.trim_matches(|character: char| character <= ' ');
    if let Some(own) = host_of(text) {
        return canonical(&own).is_some_and(|own| own == host);
    }
    // A path of the site that the image came from has no host.
    let is_path = text.starts_with(['/', '\\']) && !text[1..].starts_with(['/', '\\']);
    if is_path {
        return false;
    }
    // Without a scheme. `host:port` looks like a scheme with a path.
    let own = host_of(&format!("http://{text}")).and_then(|own| canonical(&own));
    if own.is_some_and(|own| own == host) {
        return true;
    }
    // A URL in a URL.
    let inner = text.split_once(':').map(|(_, inner)| inner);
    inner.is_some_and(|inner| nested > 0 && is_text_at(inner, host, nested - 1))
}

fn host_of(url: &str) -> Option<String> {
    Some(Url::parse(url).ok()?.host_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts, each with URLs that are there.
    const SPELLINGS: &[(&str, &[&str])] = &[
        (
            "example.org",
            &[
                "https://example.org/a",
                "https://example.org./a",
                "https://EXAMPLE.org../a",
                "http://user:pw@Example.Org:8080/?x=1",
                "//example.org/a",
                "\\\\example.org\\a",
                "///example.org/a",
                "example.org",
                "example.org/a",
                "example.org:8080/a",
                "user@example.org/a",
                "EXAMPLE.ORG./a",
                "  https://example.org/a\n",
                "https:example.org/a",
                "https:\\\\example.org\\a",
                "https://exam\tple.org/a",
                "https://example%2eorg/a",
                "https://%65xample.org/a",
                "example%2Eorg/a",
                "https://example。org/a",
                "https://ｅｘａｍｐｌｅ.org/a",
                "ftp://example.org/a",
                "s3://example.org/a",
                "S3://EXAMPLE.org./a",
                "view-source:https://example.org/a",
                "blob:https://example.org/1",
            ],
        ),
        (
            "bücher.example",
            &[
                "https://bücher.example/",
                "https://BÜCHER.example./",
                "https://xn--bcher-kva.example/",
                "XN--BCHER-KVA.EXAMPLE/a",
                "//b%C3%BCcher.example/",
                "https://bu\u{308}cher.example/",
            ],
        ),
        (
            "127.0.0.1",
            &[
                "http://127.0.0.1/",
                "http://127.0.0.1./",
                "http://2130706433/",
                "http://0x7f.1/",
                "http://0177.0.0.1/",
                "http://[::ffff:127.0.0.1]/",
                "127.1:80/a",
            ],
        ),
        (
            "2001:db8::1",
            &[
                "http://[2001:db8::1]/",
                "http://[2001:DB8:0:0::0001]:80/",
                "//[2001:db8::1]/a",
                "[2001:db8::1]/a",
            ],
        ),
    ];

    #[test]
    fn every_spelling_of_a_host_is_found() {
        for (host, urls) in SPELLINGS {
            let host = canonical(host).unwrap();
            for url in *urls {
                assert!(is_at(Some(url), &host), "{url} is at {host}");
            }
        }
    }

    #[test]
    fn a_host_is_that_of_a_url_and_not_a_part_of_it() {
        for url in [
            "https://example.com/img.example.com",
            "https://img.example.com.evil.test/",
            "https://evil.test/?u=img.example.com",
            "https://evil.test/#@img.example.com",
            "https://img.example.com@evil.test/",
            "https://evil.test/https://img.example.com/",
            "https://www.img.example.com/",
            "/img.example.com/a.jpg",
            "photos/img.example.com",
            "",
            ".",
        ] {
            assert!(!is_at(Some(url), "img.example.com"), "{url}");
        }
        assert!(!is_at(None, "img.example.com"));
    }

    #[test]
    fn spellings_of_one_host_have_one_canonical_spelling() {
        for (text, host) in [
            ("EXAMPLE.org.", "example.org"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("0x7f.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("[2001:DB8::0:1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(host), "{text}");
        }
        for text in [
            "",
            ".",
            "a b",
            "https://example.org",
            "example.org/a",
            "example.org:80",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
