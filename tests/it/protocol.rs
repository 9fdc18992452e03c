//! Clients that break the limits of HTTP/1 and HTTP/2, on real connections. The HTTP/2 frames are written by hand, because a
//! client library does not send them.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::support::app::TestApp;

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;
/// The setting that gives streams no window, so that no response can be sent.
const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];
/// `431` in the Huffman code of HPACK.
const STATUS_431: [u8; 3] = [0x69, 0x90, 0xFF];

/// Starts a server that closes and resets after half a second.
async fn serve() -> (TestApp, SocketAddr) {
    let app = TestApp::with(&[("FACESCAN__SERVER__HEADER_TIMEOUT_MS", "500")]).await;
    let address = app.serve().await;
    (app, address)
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Frame {
    /// Returns the last four bytes of a reset, or the code of a GOAWAY.
    fn code(&self) -> u32 {
        let at = if self.kind == GO_AWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the header block of `GET path` without Huffman codes.
fn get(path: &str) -> Vec<u8> {
    let path = [&[4, path.len() as u8], path.as_bytes()].concat();
    [&[0x82, 0x86][..], &path, b"\x01\x04here"].concat()
}

/// Returns a whole request.
fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &get(path))
}

/// Returns a header field of about `length` bytes.
fn field(length: usize) -> Vec<u8> {
    assert!((127 + 128..127 + 16_384).contains(&length));
    let rest = length - 127;
    let value = vec![b'x'; length];
    let coded = [0x7F, rest as u8 | 0x80, (rest >> 7) as u8];
    [&b"\0\x01a"[..], &coded, &value].concat()
}

struct Client(TcpStream);

impl Client {
    /// Connects and sends the settings.
    async fn connect(address: SocketAddr, settings: &[u8]) -> Self {
        let mut client = Self(TcpStream::connect(address).await.unwrap());
        let opening = frame(SETTINGS, 0, 0, settings);
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        client.send(&[&preface[..], &opening].concat()).await;
        client
    }

    /// Sends bytes. The server may have closed the connection.
    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.ok();
    }

    async fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream,
            payload,
        })
    }

    /// Returns the next frame of a kind, apart from acknowledged settings. Answers the pings of the server.
    async fn next(&mut self, kind: u8) -> Frame {
        let search = async {
            loop {
                let frame = self.frame().await.expect("an open connection");
                if frame.kind == PING && frame.flags & ACK == 0 {
                    let answer = self::frame(PING, ACK, 0, &frame.payload);
                    self.send(&answer).await;
                } else if frame.kind == kind && !(kind == SETTINGS && frame.flags & ACK != 0) {
                    return frame;
                }
            }
        };
        let limit = Duration::from_secs(20);
        timeout(limit, search).await.expect("the frame")
    }
}

#[tokio::test]
async fn an_http_1_head_that_is_too_large_is_refused() {
    let (_app, address) = serve().await;
    for head in [
        "a: b\r\n".repeat(10_000),
        format!("a: {}", "b".repeat(1 << 20)),
    ] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /livez HTTP/1.1\r\nhost: here\r\n{head}\r\n\r\n");
        // The server answers before it has read all of it.
        client.write_all(request.as_bytes()).await.ok();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 431");
    }
}

#[tokio::test]
async fn an_endless_chunk_extension_closes_the_connection() {
    let (_app, address) = serve().await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = "POST /detect HTTP/1.1\r\nhost: here\r\ncontent-type: image/png\r\ntransfer-encoding: chunked\r\n\r\n1;";
    client.write_all(head.as_bytes()).await.unwrap();
    let sent = async { while client.write_all(&[b'x'; 4096]).await.is_ok() {} };
    timeout(Duration::from_secs(20), sent).await.unwrap();
}

#[tokio::test]
async fn the_limits_of_http_2_are_announced() {
    let (_app, address) = serve().await;
    let mut client = Client::connect(address, &[]).await;
    let settings = client.next(SETTINGS).await.payload;
    let value = |wanted: u16| {
        let found = settings
            .chunks_exact(6)
            .find(|entry| entry[..2] == wanted.to_be_bytes());
        found.map(|entry| u32::from_be_bytes(entry[2..].try_into().unwrap()))
    };
    assert_eq!(value(3), Some(200), "concurrent streams");
    assert_eq!(value(6), Some(16 << 10), "header list");
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused() {
    let (_app, address) = serve().await;
    // Streams without a window stay open for half a second.
    let mut client = Client::connect(address, &NO_WINDOW).await;
    let requests: Vec<u8> = (0..201)
        .flat_map(|number| request(2 * number + 1, "/openapi.json"))
        .collect();
    client.send(&requests).await;
    let refused = client.next(RESET).await;
    assert_eq!((refused.stream, refused.code()), (401, REFUSED_STREAM));
}

#[tokio::test]
async fn a_header_list_above_the_limit_is_refused() {
    let (_app, address) = serve().await;
    let mut client = Client::connect(address, &[]).await;
    let first = [get("/livez"), field(12_000)].concat();
    client.send(&frame(HEADERS, END_STREAM, 1, &first)).await;
    let last = frame(CONTINUATION, END_HEADERS, 1, &field(12_000));
    client.send(&last).await;
    let answer = client.next(HEADERS).await.payload;
    assert!(
        answer.windows(3).any(|part| part == STATUS_431),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_flood_of_resets_closes_the_connection() {
    let (_app, address) = serve().await;
    let mut client = Client::connect(address, &[]).await;
    let flood: Vec<u8> = (0..200)
        .flat_map(|number| {
            let stream = 2 * number + 1;
            let reset = frame(RESET, 0, stream, &CANCEL.to_be_bytes());
            [request(stream, "/livez"), reset].concat()
        })
        .collect();
    client.send(&flood).await;
    assert_eq!(client.next(GO_AWAY).await.code(), ENHANCE_YOUR_CALM);
}

#[tokio::test]
async fn endless_continuations_close_the_connection() {
    let (_app, address) = serve().await;
    let mut client = Client::connect(address, &[]).await;
    client
        .send(&frame(HEADERS, END_STREAM, 1, &get("/livez")))
        .await;
    for _ in 0..100 {
        client.send(&frame(CONTINUATION, 0, 1, &field(300))).await;
    }
    assert_eq!(client.next(GO_AWAY).await.code(), ENHANCE_YOUR_CALM);
}

#[tokio::test]
async fn an_answer_that_is_not_read_is_reset() {
    let (_app, address) = serve().await;
    let mut client = Client::connect(address, &NO_WINDOW).await;
    client.send(&request(1, "/openapi.json")).await;
    client.next(HEADERS).await;
    assert_eq!(client.next(RESET).await.code(), CANCEL);
    client.send(&frame(PING, 0, 0, &[7; 8])).await;
    assert_eq!(client.next(PING).await.payload, [7; 8], "it stays open");
}
