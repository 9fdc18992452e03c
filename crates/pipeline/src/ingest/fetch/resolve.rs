//! Resolves host names and checks every address before a connection to it.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use facescan_config::Urls;
use facescan_outbound::tls;
use reqwest::{
    ClientBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
};

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
struct Guarded {
    lookup: Arc<dyn Lookup>,
    guard: Arc<Guard>,
}

/// Returns the builder of a client for hosts that callers choose, and the guard that checks them.
pub(in crate::ingest) fn guarded_client(
    urls: &Urls,
    lookup: Arc<dyn Lookup>,
) -> Result<(ClientBuilder, Arc<Guard>), rustls::Error> {
    let guard = Arc::new(Guard::new(urls));
    let resolver = Guarded {
        lookup,
        guard: Arc::clone(&guard),
    };
    let client = facescan_outbound::client(tls::client_config()?)
        .dns_resolver(Arc::new(resolver))
        // Callers choose the hosts, so the number of idle connections would have no bound.
        .pool_max_idle_per_host(0)
        .connect_timeout(urls.connect_timeout_ms.duration())
        .user_agent(&urls.user_agent);
    Ok((client, guard))
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
