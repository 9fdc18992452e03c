//! Connections: accept, serve, and let go of them at shutdown.

use std::{io, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// How long to wait after the listener could take no connection, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves `router` until `stopped` resolves and nothing is in flight.
///
/// A connection that stays silent for `header_timeout`, or does not send a whole request head within it, is closed, so
/// that a slow client holds neither a connection nor a shutdown for long. HTTP/2 connections may be idle, but have to
/// answer a ping.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    header_timeout: Duration,
    stopped: impl Future<Output = ()> + Send + 'static,
) {
    let mut connections = Builder::new(TokioExecutor::new());
    connections
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout);
    connections
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(header_timeout);
    let graceful = GracefulShutdown::new();
    let stopping = CancellationToken::new();
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let stream = tokio::select! {
            stream = accept(&listener) => stream,
            () = &mut stopped => break,
        };
        // An answer is one write; waiting to fill a packet would only delay it.
        stream.set_nodelay(true).ok();
        let service = TowerToHyperService::new(router.clone());
        let (connections, watcher) = (connections.clone(), graceful.watcher());
        let stopping = stopping.clone();
        tokio::spawn(async move {
            let mut first = [0];
            // The versions are told apart by the first bytes, and no timer runs until they have come.
            tokio::select! {
                spoke = timeout(header_timeout, stream.peek(&mut first)) => if !matches!(spoke, Ok(Ok(1))) {
                    return;
                },
                () = stopping.cancelled() => return,
            }
            let connection = connections.serve_connection(TokioIo::new(stream), service);
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(error = %error, "connection broke off");
            }
        });
    }
    drop(listener);
    stopping.cancel();
    graceful.shutdown().await;
}

/// The next connection. Failures to accept pass: the client went away, or descriptors are short for a while.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = %error, "cannot accept connections; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
