//! Images of batches in S3, with a real server process and `facescan serve`, because the credentials are in the environment.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::state_and_ok;
use crate::support::{
    app::image_file,
    cli::{Serving, facescan},
};

const BUCKET: &str = "faces";

/// Kills the process at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts the S3 server and creates the bucket. Returns its address.
fn s3_server() -> (Running, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/s3-server");
    let server = Command::new(script)
        .arg(address.port().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Running(server);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}; run `make test`"),
        }
        std::thread::yield_now();
    };
    let scope = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request";
    let request = format!(
        "PUT /{BUCKET} HTTP/1.1\r\nhost: {address}\r\nauthorization: {scope}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    (server, format!("http://{address}"))
}

#[test]
fn images_are_kept_in_s3() {
    let (s3, endpoint) = s3_server();
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(
        facescan(["serve"])
            .env("FACESCAN__DATA_DIR", folder.path())
            .env(
                "FACESCAN__BATCHES__PAYLOADS",
                format!("s3://{BUCKET}/below"),
            )
            .env("AWS_ENDPOINT", &endpoint)
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test"),
    );
    let server = &serving.address;
    let image = folder.path().join("t1.jpg");
    std::fs::write(&image, image_file("t1.jpg")).unwrap();
    let submit = |operation: &str| {
        facescan([
            "submit",
            "--wait",
            "--server",
            server,
            "--operation",
            operation,
        ])
        .arg(&image)
        .output()
        .unwrap()
    };
    let done = submit("enhance");
    assert!(done.status.success(), "{done:?}");
    let batch: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(state_and_ok(&batch), ("done", 1));
    // The enhanced image comes from S3, too.
    let id = batch["id"].as_str().unwrap();
    let items = facescan(["batches", "items", id, "--server", server])
        .output()
        .unwrap();
    let item: Value = serde_json::from_slice(items.stdout.trim_ascii_end()).unwrap();
    assert!(item["result"]["enhanced"]["data"].as_str().unwrap().len() > 1000);
    assert!(
        !folder.path().join("payloads").exists(),
        "no image is in the data folder"
    );
    let deleted = facescan(["batches", "delete", id, "--server", server])
        .output()
        .unwrap();
    assert!(deleted.status.success(), "{deleted:?}");
    drop(s3);
}
