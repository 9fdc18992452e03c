//! An HTTP server that answers with the bytes it is given, also with such as no library for HTTP would send.

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

/// What is done with a request.
pub enum Reply {
    /// These bytes, and the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes, none too, and the connection ends.
    Last(Vec<u8>),
    /// Nothing, for ever.
    Silence,
}

impl Reply {
    /// An answer with a body of JSON.
    pub fn json(status: &str, more: &str, json: &str) -> Self {
        let length = json.len();
        Self::Bytes(
            format!("HTTP/1.1 {status}\r\n{more}content-length: {length}\r\n\r\n{json}").into(),
        )
    }
}

/// The server. It ends with its connections when it is dropped.
pub struct WireServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    accepting: JoinHandle<()>,
}

impl WireServer {
    /// Listens on a free loopback port. `reply` gets a whole request, and how many of its kind there were before: kinds
    /// are told by their first lines.
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

    /// The server's base address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far.
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

/// The first line of a message: the method and the path of a request.
pub fn first_line(message: &[u8]) -> &str {
    let end = message.iter().position(|byte| *byte == b'\r').unwrap();
    std::str::from_utf8(&message[..end]).unwrap()
}

/// How long a message with a content length is, once its head is there and its body too.
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

/// Asks another server; it blocks.
pub fn forward(address: &str, request: &[u8]) -> Vec<u8> {
    let mut stream = Upstream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    while message_len(&answer).is_none() {
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "{address} ended the connection");
        answer.extend_from_slice(&part[..read]);
    }
    stream.shutdown(Shutdown::Both).ok();
    answer
}
