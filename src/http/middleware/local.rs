//! Protects a server without keys from what reaches its loopback address through this machine.
//!
//! A web page of another origin can send requests there, by a name that resolves to the address (DNS rebinding), with a form or
//! with an image. A reverse proxy can pass on the requests of strangers. Both give themselves away by the names in `host` and
//! `origin`, by the headers that proxies add, or by the fetch metadata of browsers. A proxy that adds no header and sends the
//! name of this machine does not: nothing distinguishes it from a program of this machine.

use axum::http::{
    HeaderMap, HeaderName, Request,
    header::{HOST, ORIGIN},
};
use facescan_config::{Config, is_loopback};
use url::Url;

use crate::access::error::AccessError;

/// Where a browser says that a request comes from, in relation to this server.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers by which proxies and content delivery networks pass on who the client is, and what it has asked for.
const PROXY_HEADERS: [&str; 22] = [
    "forwarded",
    "via",
    "ali-cdn-real-ip",
    "cdn-loop",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "front-end-https",
    "proxy-client-ip",
    "true-client-ip",
    "wl-proxy-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-http-host-override",
    "x-nginx-proxy",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-scheme",
    "x-varnish",
];

/// The beginnings of such headers.
const PROXY_PREFIXES: [&str; 14] = [
    "cf-",
    "cloudfront-",
    "forwarded-",
    "x-amzn-",
    "x-appengine-",
    "x-arr-",
    "x-azure-",
    "x-cloud-trace-",
    "x-envoy-",
    "x-forward",
    "x-goog-",
    "x-original-",
    "x-proxy-",
    "x-rewrite-",
];

/// Checks that a request comes from this machine, if the server needs no key because it listens on a loopback address.
///
/// # Errors
/// [`AccessError::NotLocal`] if a header shows that it comes from elsewhere.
pub fn check<B>(request: &Request<B>, config: &Config) -> Result<(), AccessError> {
    if !config.is_for_this_machine() {
        return Ok(());
    }
    let headers = request.headers();
    // HTTP/2 has the host in the URI, and so has a request that was meant for a proxy. Either can have both.
    let authority = request.uri().authority().map(|host| host.as_str());
    let mut hosts = authority.into_iter().chain(texts(headers, &HOST));
    let is_local = hosts.all(|host| is_local_url(&format!("http://{host}")));
    let is_passed_on = headers.keys().any(|name| is_of_proxy(name.as_str()));
    match is_local && !is_passed_on && is_own_page(headers, config) {
        true => Ok(()),
        false => Err(AccessError::NotLocal),
    }
}

/// Returns whether a request comes from no page, from one of this server, or from one that the settings list.
fn is_own_page(headers: &HeaderMap, config: &Config) -> bool {
    let listed = &config.server.cors_origins;
    let is_listed = |origin: &str| listed.iter().any(|own| own == origin);
    let mut origins = texts(headers, &ORIGIN).peekable();
    let is_from_listed = origins.peek().is_some_and(|origin| is_listed(origin));
    // Another port of this machine is the same site, but not the same page. Older browsers send no metadata.
    let mut sites = texts(headers, &SEC_FETCH_SITE);
    let is_same_origin = sites.all(|site| matches!(site, "same-origin" | "none"));
    origins.all(|origin| is_listed(origin) || is_local_url(origin))
        && (is_same_origin || is_from_listed)
}

/// Returns whether only proxies send a header. Some servers take `_` for `-`.
fn is_of_proxy(name: &str) -> bool {
    let name = name.replace('_', "-");
    PROXY_HEADERS.contains(&name.as_str())
        || PROXY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the values of a header. Bytes that are not text name nothing that is allowed.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
    let values = headers.get_all(name).into_iter();
    values.map(|value| value.to_str().unwrap_or_default())
}

fn is_local_url(text: &str) -> bool {
    let url = Url::parse(text).ok();
    url.as_ref()
        .and_then(Url::host_str)
        .is_some_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use facescan_config::Sources;

    fn config(settings: &[(&str, &str)]) -> Config {
        let mut sources = Sources::default();
        for (name, value) in settings {
            sources
                .environment
                .insert((*name).to_owned(), (*value).to_owned());
        }
        Config::load(&sources).unwrap().0
    }

    fn outcome(settings: &[(&str, &str)], headers: &[(&str, &str)]) -> bool {
        outcome_at("/detect", settings, headers)
    }

    fn outcome_at(uri: &str, settings: &[(&str, &str)], headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap(), &config(settings)).is_ok()
    }

    #[test]
    fn only_requests_of_this_machine_need_no_key() {
        for (headers, is_allowed) in [
            (&[][..], true),
            (&[("host", "127.0.0.1:8080")], true),
            (&[("host", "localhost")], true),
            (&[("host", "[::1]:8080")], true),
            (&[("host", "rebound.example:8080")], false),
            (&[("host", "127.0.0.1.example")], false),
            (&[("host", "")], false),
            (&[("host", "localhost"), ("host", "rebound.example")], false),
            (
                &[("host", "localhost"), ("origin", "http://localhost:8080")],
                true,
            ),
            (
                &[("host", "localhost"), ("origin", "https://evil.example")],
                false,
            ),
            (&[("host", "localhost"), ("origin", "null")], false),
        ] {
            assert_eq!(outcome(&[], headers), is_allowed, "{headers:?}");
        }
    }

    #[test]
    fn the_authority_of_a_uri_counts_beside_the_header_host() {
        let at = |uri, host| outcome_at(uri, &[], &[("host", host)]);
        assert!(at("http://127.0.0.1:8080/detect", "localhost"));
        assert!(!at("http://127.0.0.1:8080/detect", "faces.example"));
        assert!(!at("http://faces.example/detect", "localhost"));
    }

    #[test]
    fn what_a_proxy_passes_on_needs_a_key() {
        for name in [
            "Forwarded",
            "Via",
            "X-Forwarded-For",
            "x-FORWARDED-host",
            "X-Forwarded",
            "X_Forwarded_For",
            "X-Forwarder-For",
            "X-Real-IP",
            "CF-Connecting-IP",
            "cf-ray",
            "True-Client-IP",
            "X-Original-URL",
            "X-Original-Forwarded-For",
            "X-Envoy-External-Address",
            "X-Amzn-Trace-Id",
            "X-Rewrite-URL",
            "CDN-Loop",
        ] {
            for value in [
                "127.0.0.1",
                "",
                "for=127.0.0.1;host=localhost",
                "1.1 localhost",
            ] {
                let headers = [("host", "localhost"), (name, value)];
                assert!(!outcome(&[], &headers), "{name}: {value}");
            }
        }
        for name in [
            "x-request-id",
            "traceparent",
            "x-api-key",
            "user-agent",
            "x-for",
        ] {
            assert!(
                outcome(&[], &[("host", "localhost"), (name, "a")]),
                "{name}"
            );
        }
    }

    #[test]
    fn a_page_of_another_origin_needs_a_key() {
        for (site, is_allowed) in [
            ("same-origin", true),
            ("none", true),
            ("cross-site", false),
            // Another port of this machine.
            ("same-site", false),
            ("Same-Origin", false),
            ("same-origin, cross-site", false),
            ("", false),
        ] {
            let headers = [("host", "localhost"), ("sec-fetch-site", site)];
            assert_eq!(outcome(&[], &headers), is_allowed, "{site}");
        }
        let both = [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "cross-site"),
        ];
        assert!(!outcome(&[], &both));
    }

    #[test]
    fn an_origin_of_the_settings_and_a_server_with_another_mode_are_allowed() {
        let page = [
            ("host", "localhost"),
            ("origin", "https://app.example"),
            ("sec-fetch-site", "cross-site"),
        ];
        let listed = ("FACESCAN__SERVER__CORS_ORIGINS", "[https://app.example]");
        assert!(outcome(&[listed], &page));
        let two = [
            page[0],
            page[1],
            ("origin", "https://evil.example"),
            page[2],
        ];
        assert!(!outcome(&[listed], &two));
        for mode in ["off", "required"] {
            let mode = ("FACESCAN__ACCESS__MODE", mode);
            assert!(outcome(
                &[mode],
                &[("host", "faces.example"), ("via", "1.1 a")]
            ));
        }
    }
}
