//! Where requests go.

use anyhow::Context;
use http::{HeaderValue, Uri, uri::PathAndQuery};

/// An address with the path that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What to connect to: `host:port`.
    pub address: String,
    /// The `host` header.
    pub host: HeaderValue,
    /// The path with its query.
    pub path: PathAndQuery,
}

impl Target {
    /// Reads an `http://` address. One without a path gets `default_path`; `query`, where there is one, is put behind
    /// what the address has already.
    ///
    /// # Errors
    /// Says what is wrong with the address.
    pub fn parse(url: &str, default_path: &str, query: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| {
            format!("`{url}` is no address; write one such as http://127.0.0.1:8080")
        })?;
        let plain = uri.scheme_str() == Some("http");
        let authority = uri.authority().filter(|_| plain).with_context(|| {
            format!(
                "`{url}` cannot be measured; write an http:// address such as http://127.0.0.1:8080"
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
            path: path
                .parse()
                .with_context(|| format!("`{path}` is no path and query; escape what is not"))?,
        })
    }

    /// The same server, another path.
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
    fn an_address_without_a_path_gets_the_operation() {
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
    fn what_cannot_be_measured_is_said() {
        for url in ["https://peer/", "peer", "", "http://"] {
            let error = Target::parse(url, "/detect", "").unwrap_err();
            assert!(error.to_string().contains("http://127.0.0.1:8080"), "{url}");
        }
    }
}
