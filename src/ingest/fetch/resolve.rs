//! Names to addresses, each judged before it is connected to.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::ingest::guard::Guard;

/// Looks names up.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All addresses of a host.
    ///
    /// # Errors
    /// When it has none.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's own way of looking names up.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// What the HTTP client connects by: a name is looked up once, and only the addresses that were judged are connected to.
/// There is no second look-up whose answer could be another.
pub(super) struct Guarded {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) guard: Arc<Guard>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, guard) = (Arc::clone(&self.lookup), Arc::clone(&self.guard));
        Box::pin(async move {
            let found = lookup.addresses(name.as_str()).await?;
            if found.is_empty() {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            // One that is refused refuses the name: no honest public host has such an address beside its others.
            for address in &found {
                guard.check_address(*address)?;
            }
            // The client puts the URL's port in.
            let addresses: Addrs = Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}
