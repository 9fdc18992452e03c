//! One HTTP/1 connection, and the exchange of requests and answers.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Request, StatusCode, header::HOST};
use http_body_util::{BodyExt, Full};
use hyper::{
    Response,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use super::target::Target;

/// The time limit for a connection. A server that accepts none cannot be measured.
const CONNECT: Duration = Duration::from_secs(10);

/// A request that can be sent any number of times. Its clones share the body.
pub type Reusable = Request<Full<Bytes>>;

/// A connection that is reused.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    used: bool,
}

/// An answer without its body. The body was read and discarded.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The length of the body in bytes.
    pub bytes: u64,
}

/// An answer with its body.
pub struct Whole {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

impl Connection {
    /// Connects to the target.
    ///
    /// # Errors
    /// Returns an error if no server accepts the connection.
    pub async fn open(target: &Target) -> anyhow::Result<Self> {
        let connecting = TcpStream::connect(&target.address);
        let stream = timeout(CONNECT, connecting)
            .await
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))
            .and_then(|connected| connected)
            .with_context(|| format!("connecting to {}", target.address))?;
        stream.set_nodelay(true)?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        // The next send on the connection reports the error that ended it.
        tokio::spawn(driver);
        Ok(Self {
            sender,
            used: false,
        })
    }

    /// Sends a request and returns the head of the answer. The body follows later.
    async fn send(&mut self, request: Reusable) -> hyper::Result<Response<Incoming>> {
        self.sender.ready().await?;
        self.used = true;
        self.sender.send_request(request).await
    }

    async fn count(&mut self, request: Reusable) -> hyper::Result<Answer> {
        let response = self.send(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(Answer { status, bytes })
    }

    /// Sends a request and returns the whole answer.
    ///
    /// # Errors
    /// Returns an error if the connection fails.
    pub async fn fetch(&mut self, request: Reusable) -> anyhow::Result<Whole> {
        let (parts, body) = self.send(request).await?.into_parts();
        Ok(Whole {
            status: parts.status,
            body: body.collect().await?.to_bytes(),
        })
    }
}

/// Exchanges a request on the connection in `slot`, or on a new connection that is then stored there.
///
/// A server may close an idle connection just when the next request is sent. This says nothing about the request, so it
/// is sent once more, on a new connection.
///
/// # Errors
/// Returns an error if it cannot connect or the connection fails. The slot is then empty.
pub async fn exchange(
    target: &Target,
    slot: &mut Option<Connection>,
    request: &Reusable,
) -> anyhow::Result<Answer> {
    if let Some(mut kept) = slot.take() {
        let was_used = kept.used;
        match kept.count(request.clone()).await {
            Ok(answer) => {
                *slot = Some(kept);
                return Ok(answer);
            }
            Err(error) if was_used && is_stale(&error) => {}
            Err(error) => return Err(error).context("exchanging a request for its answer"),
        }
    }
    let mut fresh = Connection::open(target).await?;
    let answer = fresh
        .count(request.clone())
        .await
        .context("exchanging a request for its answer")?;
    *slot = Some(fresh);
    Ok(answer)
}

fn is_stale(error: &hyper::Error) -> bool {
    error.is_closed() || error.is_canceled() || error.is_incomplete_message()
}

/// Sends a GET request on a new connection.
///
/// # Errors
/// Returns an error if there is no answer.
pub async fn get(target: &Target) -> anyhow::Result<(StatusCode, Bytes)> {
    let request = Request::get(target.path.as_str())
        .header(HOST, &target.host)
        .body(Full::default())?;
    let whole = Connection::open(target).await?.fetch(request).await?;
    Ok((whole.status, whole.body))
}
