//! The target of requests.

use anyhow::Context;
use http::{HeaderValue, Uri, uri::PathAndQuery};

/// An address and a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The address to connect to, `host:port`.
    pub address: String,
    /// The `host` header.
    pub host: HeaderValue,
    /// The path with its query.
    pub path: PathAndQuery,
}

impl Target {
    /// Parses an `http://` address. If it has no path, `default_path` is used. If `query` is not empty, it is appended
    /// to the query of the address.
    ///
    /// # Errors
    /// Returns an error that describes the fault of the address.
    pub fn parse(url: &str, default_path: &str, query: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| {
            format!("`{url}` is not an address; use one such as http://127.0.0.1:8080")
        })?;
        let plain = uri.scheme_str() == Some("http");
        let authority = uri.authority().filter(|_| plain).with_context(|| {
            format!(
                "`{url}` cannot be measured; use an http:// address such as http://127.0.0.1:8080"
            )
        })?;
        let path = match uri.path() {
            "" | "/" => default_path,
            path => path,
        };
        let mut path = path.to_owned();
        for part in [uri.query().unwrap_or_default(), query] {
            if !part.is_empty() {
                path.push(if path.contains('?') { '&' } else { '?' });
                path.push_str(part);
            }
        }
        Ok(Self {
            address: match authority.port() {
                Some(_) => authority.as_str().to_owned(),
                None => format!("{authority}:80"),
            },
            host: HeaderValue::from_str(authority.as_str())?,
            path: path.parse().with_context(|| {
                format!("`{path}` is not a valid path and query; escape the special characters")
            })?,
        })
    }

    /// Returns the same server with another path.
    pub fn at(&self, path: &'static str) -> Self {
        Self {
            path: PathAndQuery::from_static(path),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_uses_the_path_of_the_operation() {
        let target = Target::parse("http://localhost:9000/", "/embed", "store=false").unwrap();
        assert_eq!(target.address, "localhost:9000");
        assert_eq!(target.path, "/embed?store=false");
        assert_eq!(target.at("/metrics").path, "/metrics");
    }

    #[test]
    fn a_peer_keeps_its_path_and_query() {
        let target = Target::parse("http://[::1]/analyze?full=1", "/embed", "").unwrap();
        assert_eq!(target.address, "[::1]:80");
        assert_eq!(target.path, "/analyze?full=1");
        let target = Target::parse("http://peer/analyze?full=1", "/embed", "a=b").unwrap();
        assert_eq!(target.path, "/analyze?full=1&a=b");
    }

    #[test]
    fn an_unusable_address_is_reported() {
        for url in ["https://peer/", "peer", "", "http://"] {
            let error = Target::parse(url, "/detect", "").unwrap_err();
            assert!(error.to_string().contains("http://127.0.0.1:8080"), "{url}");
        }
    }
}
