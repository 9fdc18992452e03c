//! Accepts connections, serves them, and closes them at shutdown.

mod head_timer;
mod pace;
mod paced_stream;
mod reading;
mod slots;
#[cfg(test)]
mod tests;
pub mod tls;
mod version;

use std::{io, sync::Arc, time::Duration};

use axum::{Router, http::Version};
use facescan_telemetry::metrics::Metrics;
use hyper::service::{Service, service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::pace::ReadingLimit;
use self::{
    head_timer::{Arrived, HeadTimer},
    paced_stream::PacedStream,
    reading::StreamExecutor,
    slots::{ConnectionSlots, OpenConnection},
    tls::Tls,
};

/// The pause after the listener cannot accept a connection, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The pause after a connection made room for another. It closes meanwhile.
const ROOM_PAUSE: Duration = Duration::from_millis(5);

/// The time that a connected client has for its first byte after the start of a shutdown. The request of a client that
/// connected just before is on its way.
const LAST_WORD: Duration = Duration::from_millis(500);

/// The largest number of requests in work on an HTTP/2 connection. The server announces it and refuses further streams.
const MAX_STREAMS: u32 = 200;

/// The largest size of the head of an HTTP/1 request. A larger one is answered with 431, as is one with more than 100 headers.
/// A connection reads parts of bodies of this size, too. So this many bytes of each connection can be in memory in no budget.
const MAX_HEAD: usize = 32 << 10;

/// The largest size of the headers of an HTTP/2 request, uncompressed. A larger list is answered with 431, and a much larger
/// one closes the connection.
const MAX_HEADER_LIST: u32 = 16 << 10;

/// The largest number of HTTP/2 streams that the client has reset before the server looked at them. A client that resets
/// more floods the server, and its connection is closed.
const MAX_RESET_STREAMS: usize = 20;

/// The largest number of HTTP/2 streams that the server has reset because of errors of the client. A correct client causes none.
const MAX_ERROR_STREAMS: usize = 100;

/// How a listener treats its connections.
pub struct ServerOptions {
    /// The certificate. `None` means no TLS.
    pub tls: Option<Tls>,
    /// How long a client may take to send a head.
    pub header_timeout: Duration,
    /// How long an HTTP/1 connection may be idle between two requests.
    pub idle_timeout: Duration,
    /// How slowly a client may read a response.
    pub reading: ReadingLimit,
    /// The largest number of connections that are open at a time.
    pub max_connections: usize,
    /// Counts connections.
    pub metrics: Metrics,
}

/// Serves `router` until `stopped` resolves and no request is in flight.
///
/// If `max_connections` are open, the one that has waited the longest for its client makes room for a new one. If all have a
/// request in work, the new one is closed.
///
/// Closes a connection that sends nothing at first, or no complete request head, within `header_timeout`, one that is idle for
/// `idle_timeout` between two requests, and one that reads a response more slowly than `reading` allows. A slow client therefore cannot delay a shutdown for long. HTTP/2 connections may be idle,
/// but must answer a ping. An HTTP/2 stream whose client reads the response too slowly is reset.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServerOptions,
    stopped: impl Future<Output = ()> + Send + 'static,
) {
    let (header_timeout, idle_timeout) = (options.header_timeout, options.idle_timeout);
    let slots = ConnectionSlots::new(options.max_connections, options.metrics);
    let tls = options.tls.map(Arc::new);
    let reloading = tls.clone();
    let reloading = tokio::spawn(async move {
        if let Some(tls) = reloading {
            tls.reload().await;
        }
    });
    let connections = Connections {
        builder: connection_builder(header_timeout, idle_timeout, options.reading),
        router,
        tls,
        header_timeout,
        reading: options.reading,
        stopping: CancellationToken::new(),
    };
    let open = TaskTracker::new();
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let stream = tokio::select! {
            stream = accept(&listener, &slots) => stream,
            () = &mut stopped => break,
        };
        if let Some(connection) = slots.take() {
            open.spawn(connections.clone().serve(stream, connection));
        }
    }
    for stream in waiting(listener) {
        if let Some(connection) = slots.take() {
            open.spawn(connections.clone().serve(stream, connection));
        }
    }
    reloading.abort();
    connections.stopping.cancel();
    open.close();
    open.wait().await;
}

/// What all connections share.
#[derive(Clone)]
struct Connections {
    builder: Builder<StreamExecutor>,
    router: Router,
    tls: Option<Arc<Tls>>,
    header_timeout: Duration,
    reading: ReadingLimit,
    stopping: CancellationToken,
}

impl Connections {
    /// Serves a connection until the client or a shutdown closes it, or until it has to make room for another.
    async fn serve(self, stream: TcpStream, connection: Arc<OpenConnection>) {
        tokio::select! {
            biased;
            () = connection.makes_room() => {}
            () = self.serve_stream(stream, &connection) => {}
        }
    }

    async fn serve_stream(&self, stream: TcpStream, connection: &Arc<OpenConnection>) {
        // The server writes a response at once, so waiting to fill a packet would only delay it.
        stream.set_nodelay(true).ok();
        limit_unsent(&stream);
        match &self.tls {
            None => {
                let first = version::from_first_bytes(&stream);
                if let Some(version) = self.in_time(first).await {
                    let arrived = Arrived::default();
                    let stream = self.limited(stream, &arrived);
                    self.serve_http(stream, version, connection, arrived).await;
                }
            }
            Some(tls) => {
                let arrived = Arrived::default();
                let accepted = tls.accept(self.limited(stream, &arrived));
                if let Some(stream) = self.in_time(accepted).await {
                    let agreed = stream.get_ref().get_ref().1.alpn_protocol();
                    let version = version::from_protocol(agreed);
                    self.serve_http(stream, version, connection, arrived).await;
                }
            }
        }
    }

    /// Disconnects a client that reads its response too slowly, because the response would stay in memory.
    fn limited(&self, stream: TcpStream, arrived: &Arrived) -> PacedStream {
        PacedStream::new(stream, self.reading, Arc::clone(arrived))
    }

    /// Waits for what a client does first, because the timers of hyper start only after that. After the start of a shutdown, it
    /// waits for [`LAST_WORD`] only. Returns `None` if the client fails or takes too long.
    async fn in_time<T>(&self, action: impl Future<Output = io::Result<T>>) -> Option<T> {
        let over = async {
            self.stopping.cancelled().await;
            tokio::time::sleep(LAST_WORD).await;
        };
        tokio::select! {
            biased;
            result = timeout(self.header_timeout, action) => result.ok()?.ok(),
            () = over => None,
        }
    }

    async fn serve_http<S>(
        &self,
        stream: S,
        version: Version,
        open: &Arc<OpenConnection>,
        arrived: Arrived,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(move |request| {
            let response = Arc::clone(open).response(router.call(request));
            async move { response.await.map(reading::watch) }
        });
        let mut builder = self.builder.clone();
        builder
            .http1()
            .timer(HeadTimer::new(arrived, self.header_timeout));
        let builder = match version {
            Version::HTTP_2 => builder.http2_only(),
            _ => builder.http1_only(),
        };
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        // A shutdown closes a connection that has read nothing, so the connection first reads what has arrived.
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = self.stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = %error, "connection closed with an error");
        }
    }
}

/// Closes the listener. Returns the connections that nobody has accepted yet, because their clients count on a response.
fn waiting(listener: TcpListener) -> Vec<TcpStream> {
    let Ok(listener) = listener.into_std() else {
        return Vec::new();
    };
    std::iter::from_fn(|| listener.accept().ok())
        .filter_map(|(stream, _)| {
            stream.set_nonblocking(true).ok()?;
            TcpStream::from_std(stream).ok()
        })
        .collect()
}

/// Returns the settings of all connections.
fn connection_builder(
    header_timeout: Duration,
    idle_timeout: Duration,
    reading: ReadingLimit,
) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(StreamExecutor { reading });
    builder
        .http1()
        // Each connection has a timer of its own, which knows the limit of a head.
        .header_read_timeout(idle_timeout)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(header_timeout)
        .keep_alive_timeout(header_timeout)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(MAX_ERROR_STREAMS);
    builder
}

/// Returns the next connection. Retries after errors, because they are temporary: a client left, or no file descriptor
/// was free. A connection that waits for its client then gives up its descriptor.
async fn accept(listener: &TcpListener, slots: &ConnectionSlots) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if concerns_only_one_connection(&error) => {}
            Err(_) if slots.make_room() => tokio::time::sleep(ROOM_PAUSE).await,
            Err(error) => {
                tracing::error!(error = %error, "cannot accept connections; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Limits what the system takes for a client that does not read. Otherwise it takes megabytes for each connection, which no
/// budget counts, and copying them for 200 clients keeps the runtime busy for a second.
#[cfg(target_os = "linux")]
fn limit_unsent(stream: &TcpStream) {
    const UNSENT_BYTES: u32 = 256 << 10;
    // A kernel without the option takes more.
    SockRef::from(stream)
        .set_tcp_notsent_lowat(UNSENT_BYTES)
        .ok();
}

/// Does nothing: the option is Linux's.
#[cfg(not(target_os = "linux"))]
fn limit_unsent(_: &TcpStream) {}

fn concerns_only_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
