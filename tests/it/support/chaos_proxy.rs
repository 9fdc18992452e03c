//! A TCP proxy that can be cut, which makes the server behind it unreachable.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections, or drops all of them while it is cut.
pub struct ChaosProxy {
    address: SocketAddr,
    whole: watch::Sender<bool>,
    open: watch::Receiver<usize>,
    accepting: JoinHandle<()>,
}

impl ChaosProxy {
    /// Listens on a free loopback port, in front of `upstream`.
    pub async fn start(upstream: impl ToSocketAddrs) -> Self {
        let upstream = tokio::net::lookup_host(upstream)
            .await
            .unwrap()
            .next()
            .unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (whole, watching) = watch::channel(true);
        let (count, open) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.send_modify(|open| *open += 1);
                let (mut watching, count) = (watching.clone(), count.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        // Check the cut first, so that a connection forwards no byte while the proxy is cut.
                        biased;
                        _ = watching.wait_for(|whole| !whole) => {}
                        () = forward(client, upstream) => {}
                    }
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Self {
            address,
            whole,
            open,
            accepting,
        }
    }

    /// Returns the address that the proxy listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops all connections, also new ones. Returns when no connection is left.
    pub async fn cut(&mut self) {
        self.whole.send_replace(false);
        self.open.wait_for(|open| *open == 0).await.unwrap();
    }

    /// Forwards new connections again.
    pub fn restore(&self) {
        self.whole.send_replace(true);
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Copies bytes in both directions until either side closes. Errors are ignored, because both sides see them.
async fn forward(mut client: TcpStream, upstream: SocketAddr) {
    if let Ok(mut server) = TcpStream::connect(upstream).await {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
