//! The error table over HTTP: the status, the code and the detail of each kind of error.

use axum::{
    body::Body,
    http::{Request, header::CONTENT_TYPE},
};
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
async fn requests_that_cannot_be_served_say_why() {
    let app = TestApp::with(&[
        ("FACESCAN__SERVER__MAX_IMAGES_PER_REQUEST", "2"),
        ("FACESCAN__SERVER__MAX_BODY_BYTES", "2000000"),
    ])
    .await;
    let json = "application/json";
    let three = json!({"images": [{"data": ""}, {"data": ""}, {"data": ""}]}).to_string();
    let url = json!({"images": [{"url": "https://example.org/a.jpg"}]}).to_string();
    let misspelled = json!({"images": [{"data": "", "ulr": "x"}]}).to_string();
    let unknown = json!({"images": [{"data": ""}], "options": {"min_scor": 0.5}}).to_string();
    let replies = [
        (
            "no content type",
            app.send(Request::post("/detect").body(Body::from("x")).unwrap())
                .await,
        ),
        (
            "form data of curl -d",
            app.post_as("/detect", "application/x-www-form-urlencoded", "x")
                .await,
        ),
        ("empty body", app.post("/detect", "".into()).await),
        (
            "no picture",
            app.post("/detect", "plain text, not an image".into()).await,
        ),
        ("broken json", app.post_as("/detect", json, "{").await),
        (
            "misspelled field",
            app.post_as("/detect", json, misspelled).await,
        ),
        (
            "no images",
            app.post_as("/detect", json, r#"{"images": []}"#).await,
        ),
        ("too many images", app.post_as("/detect", json, three).await),
        (
            "too large a body",
            app.post("/detect", vec![0; 2_000_001].into()).await,
        ),
        ("a url", app.post_as("/detect", json, url).await),
        (
            "unknown option",
            app.post_as("/detect", json, unknown).await,
        ),
        (
            "a list as an option",
            app.post_as(
                "/detect",
                json,
                json!({"images": [{"data": ""}], "options": {"det_size": [640]}}).to_string(),
            )
            .await,
        ),
        (
            "an enhanced picture to be stored",
            app.post("/enhance?store=true", image_file("t1.jpg")).await,
        ),
        (
            "no exponent",
            app.post("/enhance?gamma=bright", image_file("t1.jpg"))
                .await,
        ),
        (
            "unknown query option",
            app.post("/detect?min_scor=0.5", image_file("t1.jpg")).await,
        ),
        (
            "out of range",
            app.post("/detect?min_score=1.5", image_file("t1.jpg"))
                .await,
        ),
        (
            "wrong type",
            app.post("/detect?landmarks=maybe", image_file("t1.jpg"))
                .await,
        ),
        (
            "bad size",
            app.post("/detect?det_size=100", image_file("t1.jpg")).await,
        ),
        (
            "aligned detect",
            app.post("/detect?aligned=true", image_file("t1.jpg")).await,
        ),
        (
            "bad jpeg quality",
            app.post("/enhance?jpeg_quality=0", image_file("t1.jpg"))
                .await,
        ),
        (
            "unknown preset",
            app.post("/quality?preset=strict", image_file("t1.jpg"))
                .await,
        ),
        ("wrong method", app.get("/detect").await),
        ("wrong address", app.get("/nowhere").await),
        (
            "no such image",
            app.get("/images/0192f0c8-0000-7000-8000-000000000000")
                .await,
        ),
        ("no id", app.get("/faces/abc").await),
        ("page too long", app.get("/images?limit=1000").await),
    ];
    let problems: serde_json::Map<_, _> = replies
        .iter()
        .map(|(what, reply)| ((*what).to_owned(), problem(reply)))
        .collect();
    assert_json_snapshot!(problems);
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
async fn a_valid_request_id_is_kept() {
    let app = TestApp::start().await;
    let with_id = |id: &str| {
        Request::get("/livez")
            .header("x-request-id", id)
            .body(Body::empty())
            .unwrap()
    };
    assert_eq!(
        app.send(with_id("crawler-7")).await.headers["x-request-id"],
        "crawler-7"
    );
    assert_ne!(
        app.send(with_id("two words")).await.headers["x-request-id"],
        "two words"
    );
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_answered_with_408() {
    let app = TestApp::with(&[("FACESCAN__SERVER__REQUEST_TIMEOUT_MS", "100")]).await;
    // The body never ends. The paused clock advances to the deadline at once.
    tokio::time::pause();
    let body = Body::from_stream(futures::stream::pending::<
        Result<bytes::Bytes, std::io::Error>,
    >());
    let request = Request::post("/detect")
        .header(CONTENT_TYPE, "image/jpeg")
        .body(body)
        .unwrap();
    let reply = app.send(request).await;
    assert_eq!(
        (reply.status.as_u16(), reply.code().as_str()),
        (408, "request_timeout")
    );
}
