//! Accepts connections, serves them, and closes them at shutdown.

pub mod tls;

use std::{io, sync::Arc, time::Duration};

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

use self::tls::Tls;

/// The pause after the listener cannot accept a connection, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves `router` until `stopped` resolves and no request is in flight.
///
/// Closes a connection that sends nothing, or no complete request head, within `header_timeout`. A slow client
/// therefore cannot delay a shutdown for long. HTTP/2 connections may be idle, but must answer a ping.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    header_timeout: Duration,
    stopped: impl Future<Output = ()> + Send + 'static,
) {
    let connections = connection_builder(header_timeout);
    let tls = tls.map(Arc::new);
    let reloading = tls.clone();
    let reloading = tokio::spawn(async move {
        if let Some(tls) = reloading {
            tls.reload().await;
        }
    });
    let graceful = GracefulShutdown::new();
    let stopping = CancellationToken::new();
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let stream = tokio::select! {
            stream = accept(&listener) => stream,
            () = &mut stopped => break,
        };
        // The server writes an answer at once, so waiting to fill a packet would only delay it.
        stream.set_nodelay(true).ok();
        let service = TowerToHyperService::new(router.clone());
        let (connections, watcher) = (connections.clone(), graceful.watcher());
        let (tls, stopping) = (tls.clone(), stopping.clone());
        tokio::spawn(async move {
            let mut first = [0];
            // The first bytes decide the HTTP version, and the timers of hyper start only after them.
            tokio::select! {
                spoke = timeout(header_timeout, stream.peek(&mut first)) => if !matches!(spoke, Ok(Ok(1))) {
                    return;
                },
                () = stopping.cancelled() => return,
            }
            let ended = match tls {
                None => {
                    let connection = connections.serve_connection(TokioIo::new(stream), service);
                    watcher.watch(connection).await
                }
                Some(tls) => {
                    let stream = tokio::select! {
                        accepted = timeout(header_timeout, tls.accept(stream)) => accepted,
                        () = stopping.cancelled() => return,
                    };
                    let Ok(Ok(stream)) = stream else { return };
                    let connection = connections.serve_connection(TokioIo::new(stream), service);
                    watcher.watch(connection).await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(error = %error, "connection closed with an error");
            }
        });
    }
    drop(listener);
    reloading.abort();
    stopping.cancel();
    graceful.shutdown().await;
}

/// Returns the settings of all connections.
fn connection_builder(header_timeout: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(header_timeout);
    builder
}

/// Returns the next connection. Retries after errors, because they are temporary: a client left, or no file descriptor
/// was free.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if concerns_only_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = %error, "cannot accept connections; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn concerns_only_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
