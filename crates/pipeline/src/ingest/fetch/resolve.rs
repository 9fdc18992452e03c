//! Resolves host names and checks every address before a connection to it.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::ingest::guard::Guard;

/// Resolves host names.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Returns all addresses of a host.
    ///
    /// # Errors
    /// Returns an error if the host has no address.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// The resolver of the HTTP client. It resolves a name once and checks every address, and the client connects only to
/// these addresses. No second look-up can return another address.
pub(in crate::ingest) struct Guarded {
    pub(in crate::ingest) lookup: Arc<dyn Lookup>,
    pub(in crate::ingest) guard: Arc<Guard>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, guard) = (Arc::clone(&self.lookup), Arc::clone(&self.guard));
        Box::pin(async move {
            let found = lookup.addresses(name.as_str()).await?;
            if found.is_empty() {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            // One refused address refuses the name. An honest public host has no such address among its addresses.
            for address in &found {
                guard.check_address(*address)?;
            }
            // The client replaces port 0 with the port of the URL.
            let addresses: Addrs = Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}
