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
    let short = Duration::from_millis(200);
    let connections = Connections {
        builder: connection_builder(short),
        router: Router::new().route("/", get(|| async { vec![0_u8; ANSWER] })),
        tls: None,
        header_timeout: short,
        stopping: CancellationToken::new(),
    };
    // It returns although the client has read nothing.
    connections.serve(accept(&listener).await).await;
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.ok();
    assert!(answer.len() < ANSWER, "{}", answer.len());
}
