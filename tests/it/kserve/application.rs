//! The application with an encoder on a remote server, through `/embed?kind=image`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::http::StatusCode;
use facescan_imaging::{
    decode::{DecodeOptions, decode},
    preprocess::Preprocess,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{embedding, recorded_answer};
use crate::{
    forms::multipart,
    support::{
        app::{TestApp, image_file, numbers, result_of},
        values::{difference, floats},
        wire::{Reply, WireServer, first_line},
    },
};

/// Writes a registry with the encoder of the Triton fixture at `url`.
fn registry(folder: &TempDir, url: &str, more: &str) -> String {
    let entry = json!({
        "id": "remote", "role": "encoder", "family": "image", "sha256": "0".repeat(64), "license": "none",
        "commercial_use": true, "source": "tests/fixtures/kserve/models", "dim": 51,
        "input": {"width": 32, "height": 32, "channel_order": "rgb", "mean": [0, 0, 0], "scale": [1, 1, 1]},
        "remote": {"url": url, "model": "encoder", "retries": 0},
    });
    let mut text = json!({ "models": [entry] }).to_string();
    if !more.is_empty() {
        text = text.replace("\"dim\":51", more);
    }
    let path = folder.path().join("remote.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn settings(registry: &str) -> [(&'static str, &str); 5] {
    [
        ("FACESCAN__MODELS__REGISTRY", registry),
        ("FACESCAN__MODELS__ENCODER", "remote"),
        ("FACESCAN__DEVICES__BREAKER_FAILURES", "2"),
        ("FACESCAN__DEVICES__BREAKER_COOLDOWN_MS", "1"),
        ("FACESCAN__DEVICES__BREAKER_MAX_COOLDOWN_MS", "1"),
    ]
}

/// Returns the model's response to an inference request, in Triton's format.
fn computed(request: &[u8]) -> Vec<u8> {
    let head = request
        .windows(4)
        .position(|end| end == b"\r\n\r\n")
        .unwrap()
        + 4;
    let text = std::str::from_utf8(&request[..head]).unwrap();
    let length = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("inference-header-content-length"))
        .map(|(_, value)| value.trim().parse::<usize>().unwrap())
        .unwrap();
    let asked: Value = serde_json::from_slice(&request[head..head + length]).unwrap();
    let values = floats(&request[head + length..]);
    let vectors: Vec<u8> = values
        .chunks_exact(3 * 32 * 32)
        .flat_map(embedding)
        .flat_map(f32::to_le_bytes)
        .collect();
    let json = json!({
        "id": asked["id"], "model_name": "encoder", "model_version": "1",
        "outputs": [{"name": "embedding", "datatype": "FP32", "shape": [values.len() / (3 * 32 * 32), 51],
                     "parameters": {"binary_data_size": vectors.len()}}],
    })
    .to_string();
    let all = json.len() + vectors.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nInference-Header-Content-Length: {}\r\nContent-Length: {all}\r\n\r\n",
        json.len(),
    );
    [head.into_bytes(), json.into_bytes(), vectors].concat()
}

/// How the server behaves at the moment.
#[derive(Default)]
struct Mood {
    is_away: AtomicBool,
    /// Refuses batches of several rows, like a server whose `max_batch_size` is 1.
    takes_one_row: AtomicBool,
    /// Answers with non-finite values.
    is_confused: AtomicBool,
}

impl Mood {
    fn set(mood: &AtomicBool, to: bool) {
        mood.store(to, Ordering::SeqCst);
    }
}

/// Starts a server that runs the model.
async fn server(mood: &Arc<Mood>) -> WireServer {
    let mood = Arc::clone(mood);
    let is = |mood: &AtomicBool| mood.load(Ordering::SeqCst);
    WireServer::start(move |request, _| {
        let is_run = first_line(request).starts_with("POST");
        if is(&mood.is_away) {
            Reply::json("503 Service Unavailable", "", "{}")
        } else if is_run && is(&mood.takes_one_row) && request.len() > 20_000 {
            Reply::json(
                "400 Bad Request",
                "",
                r#"{"error":"batch-size must be <= 1"}"#,
            )
        } else if is_run {
            let mut answer = computed(request);
            if is(&mood.is_confused) {
                let end = answer.len() - 4;
                answer[end..].copy_from_slice(&f32::NAN.to_le_bytes());
            }
            Reply::Bytes(answer)
        } else {
            Reply::Bytes(recorded_answer(request))
        }
    })
    .await
}

/// Starts a server and an application that uses it.
async fn start() -> (TestApp, WireServer, Arc<Mood>) {
    let (folder, mood) = (tempfile::tempdir().unwrap(), Arc::<Mood>::default());
    let server = server(&mood).await;
    let registry = registry(&folder, &server.url(), "");
    let app = TestApp::with(&settings(&registry)).await;
    (app, server, mood)
}

/// Returns the vector that the model computes for an image.
fn expected(name: &str) -> Vec<f32> {
    let pixels = decode(&image_file(name), &DecodeOptions::default())
        .unwrap()
        .pixels;
    let preprocess = Preprocess {
        height: 32,
        width: 32,
        mean: [0.0; 3],
        std: [1.0 / 255.0; 3],
        ..Preprocess::default()
    };
    let mut row = vec![0.0; preprocess.row_len(pixels.dimensions())];
    preprocess.write(&pixels, &mut row);
    let vector = embedding(&row);
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / norm).collect()
}

fn assert_near(given: &Value, right: &[f32]) {
    let given = numbers(given);
    assert!(difference(&given, right) < 1e-5);
}

/// Embeds two images in one request, and checks their vectors and the reported device.
async fn embed_two(app: &TestApp) {
    let (media_type, body) = multipart(&[
        ("image", Some("a"), &image_file("t1.jpg")),
        ("image", Some("b"), &image_file("astronaut.png")),
        ("kind", None, b"image"),
        ("store", None, b"false"),
    ]);
    let reply = app.post_as("/embed", &media_type, body).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.body);
    let answer = reply.json();
    assert_near(&answer["results"][0]["embedding"], &expected("t1.jpg"));
    assert_near(
        &answer["results"][1]["embedding"],
        &expected("astronaut.png"),
    );
    let device = json!({"requested": "kserve:0", "active": "kserve:0"});
    assert_eq!(answer["devices"]["image_embedding"], device);
}

#[tokio::test]
async fn requests_are_refused_while_the_remote_server_is_unavailable() {
    let (app, server, mood) = start().await;
    embed_two(&app).await;
    Mood::set(&mood.is_away, true);
    for query in ["", "", "&strict_device=true"] {
        let uri = format!("/embed?kind=image&store=false{query}");
        let reply = app.post(&uri, image_file("t1.jpg")).await;
        reply.assert_error_of(query, 503, "device_unavailable");
        assert_discreet(&reply, &server);
    }
    let report = app.get("/devices").await;
    assert_discreet(&report, &server);
    let operation = &report.json()["operations"]["image_embedding"];
    assert_eq!(operation["active"], "none", "{operation}");
    // Detection does not need the remote server.
    let faces = app.post("/detect", image_file("t1.jpg")).await;
    assert_eq!(faces.status, StatusCode::OK);
    Mood::set(&mood.is_away, false);
    let mut tries = 0;
    while app
        .post("/embed?kind=image&store=false", image_file("t1.jpg"))
        .await
        .status
        != StatusCode::OK
    {
        tries += 1;
        assert!(tries < 1000, "the remote server is not used again");
    }
    embed_two(&app).await;
}

/// Checks that a response contains neither the address of the remote server nor its response.
fn assert_discreet(reply: &crate::support::app::Reply, server: &WireServer) {
    let text = String::from_utf8_lossy(&reply.body);
    assert!(
        !text.contains(&server.url()) && !text.contains("503 Service"),
        "{text}"
    );
}

#[tokio::test]
async fn a_batch_that_the_server_refuses_is_split() {
    let (app, _server, mood) = start().await;
    Mood::set(&mood.takes_one_row, true);
    let (image, mut parts) = (image_file("t1.jpg"), Vec::new());
    for _ in 0..12 {
        parts.push(("image", Some("a"), &image[..]));
    }
    parts.push(("kind", None, b"image"));
    let (media_type, body) = multipart(&parts);
    let reply = app.post_as("/embed", &media_type, body).await;
    let right = expected("t1.jpg");
    for result in reply.json()["results"].as_array().unwrap() {
        assert_near(&result["embedding"], &right);
        assert!(
            result.get("precision").is_none(),
            "a remote server does not report a precision"
        );
    }
    let report = app.get("/devices").await.json();
    let health = &report["operations"]["image_embedding"]["health"];
    assert_eq!(health["state"], "up", "{health}");
}

#[tokio::test]
async fn a_non_finite_answer_affects_only_its_own_image() {
    let (app, _server, mood) = start().await;
    Mood::set(&mood.is_confused, true);
    let result = result_of(&app, "/embed?kind=image&store=false", "t1.jpg").await;
    assert!(result.get("embedding").is_none(), "{result}");
    Mood::set(&mood.is_confused, false);
    embed_two(&app).await;
}

#[tokio::test]
async fn a_model_that_differs_from_its_entry_stops_the_start() {
    let (folder, mood) = (tempfile::tempdir().unwrap(), Arc::<Mood>::default());
    let server = server(&mood).await;
    for (more, away, said) in [
        ("\"dim\":50", false, "field `dim`"),
        ("\"dim\":51,\"output\":\"other\"", false, "field `output`"),
        ("", true, "503"),
    ] {
        Mood::set(&mood.is_away, away);
        let registry = registry(&folder, &server.url(), more);
        let error = TestApp::refusal(&settings(&registry)).await;
        assert!(error.contains(said) && error.contains("remote"), "{error}");
    }
}

/// Runs the same test with a Triton server, which `make test-triton` starts.
#[tokio::test]
#[ignore = "needs a Triton server; `make test-triton` starts one"]
async fn triton_embeds_images() {
    let url = std::env::var("FACESCAN_TEST_TRITON").expect("FACESCAN_TEST_TRITON names no server");
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(&folder, &url, "");
    embed_two(&TestApp::with(&settings(&registry)).await).await;
}
