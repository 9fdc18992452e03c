//! Protects a server without keys from what reaches its loopback address through this machine.
//!
//! A web page of another origin can send requests there, by a name that resolves to the address (DNS rebinding) or with a
//! form. A reverse proxy can pass on the requests of strangers. Both give themselves away by `host` or `origin`.

use axum::http::{
    HeaderMap, Request,
    header::{HOST, ORIGIN},
};
use url::Url;

use crate::{
    access::error::AccessError,
    config::{Config, is_loopback},
};

/// Checks that a request names this machine, if the server needs no key because it listens on a loopback address.
///
/// # Errors
/// [`AccessError::NotLocal`] if `host` or `origin` names another one.
pub fn check<B>(request: &Request<B>, config: &Config) -> Result<(), AccessError> {
    if !config.is_for_this_machine() {
        return Ok(());
    }
    let headers = request.headers();
    // HTTP/2 has the host in the URI.
    let host = match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        None => text(headers, HOST.as_str()),
    };
    let is_local = host.is_none_or(|host| is_local_url(&format!("http://{host}")));
    let is_own = text(headers, ORIGIN.as_str()).is_none_or(|origin| {
        let listed = &config.server.cors_origins;
        is_local_url(origin) || listed.iter().any(|own| own == origin)
    });
    match is_local && is_own {
        true => Ok(()),
        false => Err(AccessError::NotLocal),
    }
}

/// Returns a header. Bytes that are not text name nothing that is allowed.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get(name)
        .map(|value| value.to_str().unwrap_or_default())
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
    use crate::config::Sources;

    fn outcome(settings: &[(&str, &str)], headers: &[(&str, &str)]) -> bool {
        let mut sources = Sources::default();
        for (name, value) in settings {
            sources
                .environment
                .insert((*name).to_owned(), (*value).to_owned());
        }
        let (config, _) = Config::load(&sources).unwrap();
        let mut request = Request::builder().uri("/detect");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap(), &config).is_ok()
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
    fn an_origin_of_the_settings_and_a_server_with_another_mode_are_allowed() {
        let page = [("host", "localhost"), ("origin", "https://app.example")];
        let listed = ("FACESCAN__SERVER__CORS_ORIGINS", "[https://app.example]");
        assert!(outcome(&[listed], &page));
        for mode in ["off", "required"] {
            let mode = ("FACESCAN__ACCESS__MODE", mode);
            assert!(outcome(&[mode], &[("host", "faces.example")]));
        }
    }
}
