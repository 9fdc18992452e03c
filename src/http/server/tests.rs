use std::net::SocketAddr;

use axum::routing::get;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
};

use super::*;

#[tokio::test]
async fn a_client_that_connected_before_the_stop_gets_its_answer() {
    // The connection waits in the listener, and its request arrives after the stop.
    let (listener, mut client) = connected().await;
    let router = Router::new().route("/", get(|| async { "the response" }));
    let server = tokio::spawn(serve(listener, router, options(8), async {}));
    ask(&mut client, "/").await;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    server.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("the response"), "{answer}");
}

/// Returns a listener, and a client whose connection waits in it.
async fn connected() -> (TcpListener, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await;
    (listener, client.unwrap())
}

/// Returns the options of a server that waits for its clients.
fn options(max_connections: usize) -> ServerOptions {
    let patience = Duration::from_secs(60);
    ServerOptions {
        tls: None,
        header_timeout: patience,
        idle_timeout: patience,
        reading: reading(patience),
        max_connections,
        metrics: Metrics::default(),
    }
}

fn reading(grace: Duration) -> ReadingLimit {
    ReadingLimit {
        grace,
        bytes_per_s: 4096,
    }
}

fn slots(total: usize) -> Arc<ConnectionSlots> {
    ConnectionSlots::new(total, Metrics::default())
}

/// Returns connections that wait for a client only for a short time.
fn impatient(router: Router) -> Connections {
    let short = Duration::from_millis(200);
    Connections {
        builder: connection_builder(short, short, reading(short)),
        router,
        tls: None,
        header_timeout: short,
        reading: reading(short),
        stopping: CancellationToken::new(),
    }
}

#[tokio::test]
async fn a_client_that_sends_only_the_beginning_of_a_connection_is_disconnected() {
    for beginning in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n\r\nSM", b"POST /"] {
        let (listener, mut client) = connected().await;
        client.write_all(beginning).await.unwrap();
        // It returns although the client stays.
        let connections = impatient(Router::new());
        connections
            .serve(accept(&listener, &slots(1)).await, slots(1).take().unwrap())
            .await;
        drop(client);
    }
}

#[tokio::test]
async fn an_idle_connection_is_kept_and_its_next_head_must_come_quickly() {
    let (listener, mut client) = connected().await;
    ask(&mut client, "/").await;
    let router = Router::new().route("/", get(|| async { "the response" }));
    let mut connections = impatient(router);
    let short = connections.header_timeout;
    connections.builder = connection_builder(short, 100 * short, reading(short));
    let (stream, slot) = (accept(&listener, &slots(1)).await, slots(1).take().unwrap());
    let served = tokio::spawn(connections.serve(stream, slot));
    read_answer(&mut client).await;
    // The time goes on by itself while all tasks wait.
    tokio::time::pause();
    tokio::time::sleep(50 * short).await;
    tokio::time::resume();
    ask(&mut client, "/").await;
    read_answer(&mut client).await;
    client.write_all(b"GET /").await.unwrap();
    let begun = tokio::time::Instant::now();
    served.await.unwrap();
    assert!(begun.elapsed() < 50 * short, "{:?}", begun.elapsed());
}

/// Reads the answer of the short route, and leaves the connection open.
async fn read_answer(client: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"the response") {
        let byte = client.read_u8().await.unwrap();
        answer.push(byte);
    }
}

#[tokio::test]
async fn a_preface_that_arrives_in_parts_begins_http2() {
    let (listener, mut client) = connected().await;
    let server = accept(&listener, &slots(1)).await;
    client.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let version = tokio::spawn(async move { version::from_first_bytes(&server).await });
    tokio::task::yield_now().await;
    client.write_all(b"\r\nSM\r\n\r\n").await.unwrap();
    assert_eq!(version.await.unwrap().unwrap(), Version::HTTP_2);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_disconnected() {
    const ANSWER: usize = 64 << 20;
    let (listener, mut client) = connected().await;
    ask(&mut client, "/").await;
    let router = Router::new().route("/", get(|| async { vec![0_u8; ANSWER] }));
    let connections = impatient(router);
    // It returns although the client has read nothing.
    connections
        .serve(accept(&listener, &slots(1)).await, slots(1).take().unwrap())
        .await;
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.ok();
    assert!(answer.len() < ANSWER, "{}", answer.len());
}

/// What a slow handler tells, and what it waits for.
#[derive(Default)]
struct Slow {
    begun: Notify,
    ends: Notify,
}

/// Starts a server with a route that answers at once and one that answers when it is told to.
async fn start(max_connections: usize) -> (SocketAddr, Arc<Slow>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let slow = Arc::new(Slow::default());
    let told = Arc::clone(&slow);
    let handler = move || async move {
        told.begun.notify_one();
        told.ends.notified().await;
        "late"
    };
    let router = Router::new()
        .route("/", get(|| async { "the response" }))
        .route("/large", get(|| async { vec![0_u8; 64 << 20] }))
        .route("/slow", get(handler));
    let options = options(max_connections);
    tokio::spawn(serve(listener, router, options, std::future::pending()));
    (address, slow)
}

async fn ask(client: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
}

/// Reads until the response ends with these bytes.
async fn answer_with(client: &mut TcpStream, end: &str) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        let read = client.read_buf(&mut answer).await.unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&answer));
    }
    String::from_utf8(answer).unwrap()
}

async fn ask_and_get(client: &mut TcpStream) {
    ask(client, "/").await;
    answer_with(client, "the response").await;
}

async fn is_closed(client: &mut TcpStream) -> bool {
    matches!(client.read(&mut [0]).await, Ok(0) | Err(_))
}

#[tokio::test]
async fn the_connection_that_waits_the_longest_makes_room_for_a_new_one() {
    let (address, _) = start(2).await;
    let connect = || TcpStream::connect(address);
    let mut idle = connect().await.unwrap();
    let mut unfinished = connect().await.unwrap();
    ask_and_get(&mut idle).await;
    unfinished.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    // The first one has waited since its response, and the second one since it was opened.
    let mut new = connect().await.unwrap();
    ask_and_get(&mut new).await;
    assert!(is_closed(&mut unfinished).await);
    ask_and_get(&mut idle).await;
    // Strangers that open connections and send nothing keep nobody out.
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(connect().await.unwrap());
    }
    let mut last = connect().await.unwrap();
    ask_and_get(&mut last).await;
}

#[tokio::test]
async fn a_request_in_work_is_not_closed_for_a_new_connection() {
    let (address, slow) = start(1).await;
    let mut working = TcpStream::connect(address).await.unwrap();
    ask(&mut working, "/slow").await;
    slow.begun.notified().await;
    for _ in 0..3 {
        let mut new = TcpStream::connect(address).await.unwrap();
        assert!(is_closed(&mut new).await);
    }
    slow.ends.notify_one();
    answer_with(&mut working, "late").await;
    // It waits for its client now.
    let mut new = TcpStream::connect(address).await.unwrap();
    ask_and_get(&mut new).await;
}

#[tokio::test]
async fn an_answer_that_is_not_read_makes_room() {
    let (address, _) = start(1).await;
    let mut unread = TcpStream::connect(address).await.unwrap();
    ask(&mut unread, "/large").await;
    // It has the beginning of its response, so nothing is left to do for it.
    unread.read_exact(&mut [0; 9]).await.unwrap();
    let mut new = TcpStream::connect(address).await.unwrap();
    ask_and_get(&mut new).await;
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let (address, _) = start(1).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = format!("GET / HTTP/1.1\r\nx: {}\r\n", "a".repeat(MAX_HEAD));
    client.write_all(head.as_bytes()).await.ok();
    let answer = answer_with(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}
