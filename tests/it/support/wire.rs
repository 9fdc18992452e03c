//! An HTTP server that answers with given bytes, which may break the protocol.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream as Upstream},
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// How the server answers a request.
pub enum Reply {
    /// Sends these bytes and keeps the connection open.
    Bytes(Vec<u8>),
    /// Sends these bytes, if any, and closes the connection.
    Last(Vec<u8>),
    /// Never answers.
    Silence,
}

impl Reply {
    /// Returns a response with a JSON body.
    pub fn json(status: &str, more: &str, json: &str) -> Self {
        let length = json.len();
        Self::Bytes(
            format!("HTTP/1.1 {status}\r\n{more}content-length: {length}\r\n\r\n{json}").into(),
        )
    }
}

/// The server. Dropping it closes its connections.
pub struct WireServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    accepting: JoinHandle<()>,
}

impl WireServer {
    /// Listens on a free loopback port. `reply` gets a whole request, and the number of earlier requests with the same
    /// first line.
    pub async fn start(reply: impl Fn(&[u8], usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (reply, seen) = (Arc::new(reply), Arc::clone(&requests));
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (reply, seen) = (Arc::clone(&reply), Arc::clone(&seen));
                connections.spawn(serve(stream, move |request| {
                    let number = {
                        let mut seen = seen.lock().unwrap();
                        let line = first_line(&request).to_owned();
                        let number = seen.iter().filter(|it| first_line(it) == line).count();
                        seen.push(request.clone());
                        number
                    };
                    reply(&request, number)
                }));
            }
        });
        Self {
            address,
            requests,
            accepting,
        }
    }

    /// Returns the base URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all requests that the server has received.
    pub fn requests(&self) -> Vec<Vec<u8>> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for WireServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut stream: TcpStream, reply: impl Fn(Vec<u8>) -> Reply) {
    let mut unread = Vec::new();
    loop {
        let whole = loop {
            if let Some(length) = message_len(&unread) {
                break length;
            }
            if !matches!(stream.read_buf(&mut unread).await, Ok(1..)) {
                return;
            }
        };
        let rest = unread.split_off(whole);
        match reply(std::mem::replace(&mut unread, rest)) {
            Reply::Bytes(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::Last(bytes) => {
                stream.write_all(&bytes).await.ok();
                stream.shutdown().await.ok();
                return;
            }
            Reply::Silence => std::future::pending().await,
        }
    }
}

/// Returns the first line of a message. In a request it has the method and the path.
pub fn first_line(message: &[u8]) -> &str {
    let end = message.iter().position(|byte| *byte == b'\r').unwrap();
    std::str::from_utf8(&message[..end]).unwrap()
}

/// Returns the length of a message once its head and its body are complete.
fn message_len(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).unwrap();
    let body = text
        .lines()
        .find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().unwrap())
        })
        .unwrap_or(0);
    (bytes.len() >= head + body).then_some(head + body)
}

/// Sends a request to another server and returns its response. Blocks the thread.
pub fn forward(address: &str, request: &[u8]) -> Vec<u8> {
    let mut stream = Upstream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    while message_len(&answer).is_none() {
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "{address} closed the connection");
        answer.extend_from_slice(&part[..read]);
    }
    stream.shutdown(Shutdown::Both).ok();
    answer
}
