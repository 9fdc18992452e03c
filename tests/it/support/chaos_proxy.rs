//! A TCP proxy that can be cut or frozen, which makes the server behind it unreachable.

use std::{net::SocketAddr, pin::pin};

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections, drops all of them while it is cut, or keeps them silent while it is frozen.
pub struct ChaosProxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    open: watch::Receiver<usize>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Frozen,
    Cut,
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
        let (state, watching) = watch::channel(State::Open);
        let (count, open) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.send_modify(|open| *open += 1);
                let (watching, count) = (watching.clone(), count.clone());
                tokio::spawn(async move {
                    forward_while_open(client, upstream, watching).await;
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Self {
            address,
            state,
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
        self.state.send_replace(State::Cut);
        self.open.wait_for(|open| *open == 0).await.unwrap();
    }

    /// Forwards nothing, and keeps all connections open.
    pub fn freeze(&self) {
        self.state.send_replace(State::Frozen);
    }

    /// Forwards again.
    pub fn restore(&self) {
        self.state.send_replace(State::Open);
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Forwards one connection until it is closed or the proxy is cut.
async fn forward_while_open(
    client: TcpStream,
    upstream: SocketAddr,
    mut watching: watch::Receiver<State>,
) {
    let mut forwarding = pin!(forward(client, upstream));
    loop {
        let state = *watching.borrow_and_update();
        tokio::select! {
            // Look at the state first, so that a connection forwards no byte while the proxy is not open.
            biased;
            changed = watching.changed() => if changed.is_err() { return },
            () = &mut forwarding, if state == State::Open => return,
            () = std::future::ready(()), if state == State::Cut => return,
        }
    }
}

/// Copies bytes in both directions until either side closes. Errors are ignored, because both sides see them.
async fn forward(mut client: TcpStream, upstream: SocketAddr) {
    if let Ok(mut server) = TcpStream::connect(upstream).await {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
