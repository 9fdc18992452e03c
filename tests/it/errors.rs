//! Errors over HTTP that depend on the settings, and what every response to a request has. `mistakes` has the others.

use std::collections::BTreeMap;

use axum::{body::Body, http::header::CONTENT_TYPE};
use insta::assert_json_snapshot;
use serde_json::json;

use crate::support::app::{Reply, TestApp, image_file};

/// Returns the fields of a problem that do not change between runs.
fn problem(reply: &Reply) -> serde_json::Value {
    assert_eq!(reply.headers[CONTENT_TYPE], "application/problem+json");
    let body = reply.json();
    assert_eq!(body["status"], reply.status.as_u16());
    assert_eq!(
        body["request_id"].as_str(),
        reply.headers["x-request-id"].to_str().ok()
    );
    json!({"status": body["status"], "code": body["code"], "title": body["title"], "detail": body["detail"]})
}

#[tokio::test]
async fn images_over_a_limit_are_refused_with_the_name_of_the_limit() {
    let app = TestApp::with(&[
        ("FACESCAN__LIMITS__MAX_WIDTH", "1000"),
        ("FACESCAN__LIMITS__MAX_IMAGE_BYTES", "300000"),
    ])
    .await;
    let wide = app.post("/detect", image_file("t1.jpg")).await;
    let heavy = app.post("/detect", image_file("astronaut.png")).await;
    assert_json_snapshot!([problem(&wide), problem(&heavy)]);
}

#[tokio::test]
async fn a_strict_request_does_not_fall_back() {
    let app = TestApp::with(&[("FACE_DETECTION_GPU", "true"), ("GPU_BACKEND", "cuda")]).await;
    let strict = app
        .post("/detect?strict_device=true", image_file("t1.jpg"))
        .await;
    assert_json_snapshot!(problem(&strict));
    let lenient = app.post("/detect", image_file("t1.jpg")).await;
    assert_json_snapshot!(lenient.json()["devices"]);
}

#[tokio::test]
async fn the_fields_and_the_options_of_a_body_share_one_limit_of_mistakes() {
    let app = TestApp::start().await;
    let unknown: BTreeMap<_, _> = (0..16)
        .map(|number| (format!("name_{number}"), 1))
        .collect();
    let mut body = json!(unknown);
    body["options"] = json!(unknown);
    let body = body.to_string();
    let reply = app.post_as("/detect", "application/json", body).await;
    let errors = reply.json()["errors"].as_array().map(Vec::len);
    assert_eq!(errors, Some(16), "{reply:?}");
}

#[tokio::test]
async fn a_valid_request_id_is_kept() {
    let app = TestApp::start().await;
    for (id, is_kept) in [("crawler-7", true), ("two words", false)] {
        let reply = app.call("GET", "/livez", &[("x-request-id", id)], "").await;
        assert_eq!(reply.headers["x-request-id"] == id, is_kept, "{id}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_answered_with_408() {
    let app = TestApp::with(&[("FACESCAN__SERVER__REQUEST_TIMEOUT_MS", "100")]).await;
    // The body never ends. The paused clock advances to the deadline at once.
    tokio::time::pause();
    let pending = futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
    let body = Body::from_stream(pending);
    let reply = app.post_as("/detect", "image/jpeg", body).await;
    reply.assert_error(408, "request_timeout");
}
