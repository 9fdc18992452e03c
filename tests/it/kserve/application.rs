//! The application with an encoder on a remote server: `/embed?kind=image`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::http::StatusCode;
use facescan::{
    config::{Config, Sources},
    imaging::{
        decode::{DecodeOptions, decode},
        preprocess::Preprocess,
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{embedding, recorded_answer};
use crate::{
    forms::multipart,
    support::{
        app::{TestApp, numbers, picture, settings_for},
        wire::{Reply, WireServer, first_line},
    },
};

/// A registry with the encoder that Triton runs in the tests, at `url`.
fn registry(folder: &TempDir, url: &str, more: &str) -> String {
    let entry = json!({
        "id": "remote", "role": "encoder", "family": "image", "sha256": "0".repeat(64), "licence": "none",
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

fn settings(registry: &str) -> [(&'static str, &str); 3] {
    [
        ("FACESCAN__MODELS__REGISTRY", registry),
        ("FACESCAN__MODELS__ENCODER", "remote"),
        ("FACESCAN__DEVICES__FAILURES_TO_TRIP", "2"),
    ]
}

/// What the model answers to a run, as Triton writes it.
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
    let values: Vec<f32> = request[head + length..]
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
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

/// A server of that model, until `is_away` is set.
async fn server(is_away: &Arc<AtomicBool>) -> WireServer {
    let is_away = Arc::clone(is_away);
    WireServer::start(move |request, _| {
        if is_away.load(Ordering::SeqCst) {
            Reply::json("503 Service Unavailable", "", "{}")
        } else if first_line(request).starts_with("POST") {
            Reply::Bytes(computed(request))
        } else {
            Reply::Bytes(recorded_answer(request))
        }
    })
    .await
}

/// The vector that the model makes of a picture.
fn expected(name: &str) -> Vec<f32> {
    let pixels = decode(&picture(name), &DecodeOptions::default())
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
    assert_eq!(given.len(), right.len());
    assert!(
        given
            .iter()
            .zip(right)
            .all(|(given, right)| (given - right).abs() < 1e-5)
    );
}

/// Two pictures of one request, and what is said of where they ran.
async fn embed_two(app: &TestApp) {
    let (media_type, body) = multipart(&[
        ("image", Some("a"), &picture("t1.jpg")),
        ("image", Some("b"), &picture("astronaut.png")),
        ("kind", None, b"image"),
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
async fn pictures_are_embedded_by_a_server_and_refused_while_it_is_away() {
    let (folder, is_away) = (tempfile::tempdir().unwrap(), Arc::default());
    let server = server(&is_away).await;
    let registry = registry(&folder, &server.url(), "");
    let app = TestApp::with(&settings(&registry)).await;
    embed_two(&app).await;
    is_away.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let reply = app.post("/embed?kind=image", picture("t1.jpg")).await;
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(reply.code(), "device_unavailable");
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(
            detail.contains("the model server gave no answer"),
            "{detail}"
        );
        assert!(!detail.contains(&server.url()), "{detail}");
    }
    let report = app.get("/devices").await.json();
    let operation = &report["operations"]["image_embedding"];
    assert_eq!(operation["active"], "cpu", "{operation}");
    // Faces are found as before.
    let faces = app.post("/detect", picture("t1.jpg")).await;
    assert_eq!(faces.status, StatusCode::OK);
}

#[tokio::test]
async fn a_model_that_is_not_the_registrys_stops_the_start() {
    let (folder, is_away) = (tempfile::tempdir().unwrap(), Arc::default());
    let server = server(&is_away).await;
    for (more, away, said) in [
        ("\"dim\":50", false, "field `dim`"),
        ("\"dim\":51,\"output\":\"other\"", false, "field `output`"),
        ("", true, "503"),
    ] {
        is_away.store(away, Ordering::SeqCst);
        let registry = registry(&folder, &server.url(), more);
        let sources = Sources {
            environment: settings_for(folder.path(), &settings(&registry)),
            ..Sources::default()
        };
        let (config, _) = Config::load(&sources).unwrap();
        let error = match TestApp::try_start(config).await {
            Ok(_) => panic!("{more} was accepted"),
            Err(error) => format!("{error:#}"),
        };
        assert!(error.contains(said) && error.contains("remote"), "{error}");
    }
}

/// The same against Triton; `make test-triton` starts one.
#[tokio::test]
async fn triton_embeds_pictures() {
    let Ok(url) = std::env::var("FACESCAN_TEST_TRITON") else {
        println!(
            "skipped: FACESCAN_TEST_TRITON is not set; `make test-triton` starts a server and sets it"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(&folder, &url, "");
    embed_two(&TestApp::with(&settings(&registry)).await).await;
}
