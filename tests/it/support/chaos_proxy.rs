//! A TCP proxy that can be cut: the server behind it is then away.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections while it is whole, and drops them all while it is cut.
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
                        // First: what is accepted while the proxy is cut forwards not a byte.
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

    /// Where the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops every connection, and every new one. Returns when none is left.
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

/// Carries bytes both ways until either side is done; how it ended is the two sides' affair.
async fn forward(mut client: TcpStream, upstream: SocketAddr) {
    if let Ok(mut server) = TcpStream::connect(upstream).await {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
