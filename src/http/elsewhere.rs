//! What requests are told that no route takes: the nearest address, or the methods of the address.

use axum::http::{HeaderMap, Method, header::ACCESS_CONTROL_REQUEST_METHOD};
use facescan_fields::nearest;
use utoipa::openapi::OpenApi;

use crate::http::{error::ApiError, openapi::routes::by_method};

/// Addresses that other servers have, and where their response is here.
const ELSEWHERE: [(&str, &str); 6] = [
    ("/health", "/readyz"),
    ("/healthz", "/readyz"),
    ("/ping", "/livez"),
    ("/status", "/readyz"),
    ("/docs", "/docs/"),
    ("/openapi", "/openapi.json"),
];

/// The beginnings of addresses of other servers. Here no address has one.
const PREFIXES: [&str; 4] = ["/api/v1/", "/v1/", "/api/", "/v2/"];

/// The addresses of the document, and their methods.
#[derive(Debug, Default)]
pub(super) struct Addresses(Vec<(String, Vec<Method>)>);

impl Addresses {
    /// Reads the addresses of a document.
    pub(super) fn from_document(document: &OpenApi) -> Self {
        let paths = document.paths.paths.iter().map(|(path, item)| {
            let methods = by_method(item).map(|(method, _)| method);
            (path.clone(), methods.collect())
        });
        Self(paths.collect())
    }

    /// Returns the error of an address that does not exist.
    pub(super) fn not_found(&self, path: &str) -> ApiError {
        ApiError::NotFound(match self.meant(path) {
            Some(meant) => format!("there is nothing at this address; did you mean `{meant}`?"),
            None => "there is nothing at this address; /docs/ lists all of them".to_owned(),
        })
    }

    /// Returns the address that was probably meant.
    fn meant(&self, path: &str) -> Option<&str> {
        let trimmed = path.trim_end_matches('/');
        let other = ELSEWHERE.iter().find(|(other, _)| *other == trimmed);
        if let Some(&(_, meant)) = other {
            return Some(meant);
        }
        let rest = PREFIXES
            .iter()
            .find_map(|prefix| trimmed.strip_prefix(prefix).map(|rest| format!("/{rest}")));
        let path = rest.as_deref().unwrap_or(trimmed);
        let known = || self.0.iter().map(|(known, _)| known.as_str());
        known()
            .find(|known| matches(known, path))
            .or_else(|| nearest(path, known()))
    }

    /// Returns the error of a method that an address does not take.
    pub(super) fn not_allowed(&self, method: &Method, path: &str, headers: &HeaderMap) -> ApiError {
        if *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return ApiError::MethodNotAllowed(
                "pages of other origins may not call this server; name their origin in the setting `server.cors_origins`"
                    .to_owned(),
            );
        }
        let address = self.0.iter().find(|(known, _)| matches(known, path));
        let methods = address.into_iter().flat_map(|(_, methods)| methods);
        let names: Vec<&str> = methods.map(Method::as_str).collect();
        ApiError::MethodNotAllowed(match names.as_slice() {
            [] => "this address does not take that method; see /docs/".to_owned(),
            names => format!(
                "this address takes {}, and no other method",
                names.join(" and ")
            ),
        })
    }
}

/// Returns whether a path is that of an address, such as `/images/{id}`.
fn matches(address: &str, path: &str) -> bool {
    let (mut parts, mut of_path) = (address.split('/'), path.split('/'));
    loop {
        match (parts.next(), of_path.next()) {
            (None, None) => return true,
            (Some(part), Some(of_path)) if part == of_path => {}
            (Some(part), Some(of_path)) if part.starts_with('{') && !of_path.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_address_is_named() {
        let addresses = Addresses::from_document(&crate::http::openapi_document());
        for (path, meant) in [
            ("/detect/", Some("/detect")),
            ("/v1/embed", Some("/embed")),
            (
                "/api/v1/collections/people/enrollments",
                Some("/collections/{id}/enrollments"),
            ),
            ("/detct", Some("/detect")),
            ("/health", Some("/readyz")),
            ("/x", None),
            ("/", None),
        ] {
            assert_eq!(addresses.meant(path), meant, "{path}");
        }
    }

    #[test]
    fn the_methods_of_an_address_are_named() {
        let addresses = Addresses::from_document(&crate::http::openapi_document());
        let text = |method, path| {
            let headers = HeaderMap::new();
            addresses.not_allowed(&method, path, &headers).to_string()
        };
        let one = text(Method::GET, "/detect");
        assert_eq!(one, "this address takes POST, and no other method");
        let several = text(Method::POST, "/images/7");
        assert_eq!(
            several,
            "this address takes GET and DELETE, and no other method"
        );
    }
}
