use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test]
async fn a_client_that_connected_before_the_stop_gets_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // The connection waits in the listener, and its request arrives after the stop.
    let mut client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let router = Router::new().route("/", get(|| async { "the answer" }));
    let patience = Duration::from_secs(60);
    let server = tokio::spawn(serve(listener, None, router, patience, async {}));
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    server.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("the answer"), "{answer}");
}

/// Returns connections that wait for a client only for a short time.
fn impatient(router: Router) -> Connections {
    let short = Duration::from_millis(200);
    Connections {
        builder: connection_builder(short),
        router,
        tls: None,
        header_timeout: short,
        stopping: CancellationToken::new(),
    }
}

#[tokio::test]
async fn a_client_that_sends_only_the_beginning_of_a_connection_is_disconnected() {
    for beginning in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n\r\nSM", b"POST /"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        client.write_all(beginning).await.unwrap();
        // It returns although the client stays.
        let connections = impatient(Router::new());
        connections.serve(accept(&listener).await).await;
        drop(client);
    }
}

#[tokio::test]
async fn a_preface_that_arrives_in_parts_begins_http2() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let server = accept(&listener).await;
    client.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let version = tokio::spawn(async move { version::of_first_bytes(&server).await });
    tokio::task::yield_now().await;
    client.write_all(b"\r\nSM\r\n\r\n").await.unwrap();
    assert_eq!(version.await.unwrap().unwrap(), HttpVersion::Http2);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_disconnected() {
    const ANSWER: usize = 64 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        .await
        .unwrap();
    let router = Router::new().route("/", get(|| async { vec![0_u8; ANSWER] }));
    let connections = impatient(router);
    // It returns although the client has read nothing.
    connections.serve(accept(&listener).await).await;
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.ok();
    assert!(answer.len() < ANSWER, "{}", answer.len());
}
