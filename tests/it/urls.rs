//! Images by URL, through the router: which URLs are fetched, and the errors of the others.

use std::sync::Arc;

use axum::{Router, http::StatusCode, response::Redirect, routing::get};
use facescan_pipeline::ingest::fetch::Fetcher;
use futures::FutureExt;
use serde_json::{Value, json};

use crate::support::{
    app::{TestApp, image_file, result_of, serve},
    cli::facescan,
    silent::Silent,
};

mod https;

const JSON: &str = "application/json";

/// Settings that allow fetching over HTTP and from this machine.
pub const LOCAL: [(&str, &str); 3] = [
    ("FACESCAN__URLS__ENABLED", "true"),
    ("FACESCAN__URLS__SCHEMES", "[http]"),
    ("FACESCAN__URLS__ALLOW_PRIVATE", "true"),
];

/// Starts a server of images on the loopback interface and returns its URL.
pub async fn images() -> String {
    let routes = Router::new()
        .route("/t1.jpg", get(|| async { image_file("t1.jpg") }))
        .route("/moved", get(|| async { Redirect::to("/t1.jpg") }))
        .route(
            "/inside",
            get(|| async { Redirect::to("http://169.254.169.254/latest/meta-data/") }),
        )
        .route("/text", get(|| async { "this is not an image" }))
        .route("/large", get(|| async { vec![0_u8; 2_000_001] }));
    format!("http://{}", serve(routes).await)
}

fn body(images: Value, options: Value) -> String {
    json!({"images": images, "options": options}).to_string()
}

#[tokio::test]
async fn an_image_by_url_returns_the_same_answer_as_its_bytes() {
    let (app, server) = (TestApp::with(&LOCAL).await, images().await);
    let unstored = json!({"store": false, "timings": true});
    for uri in ["/detect", "/embed", "/quality"] {
        let images = json!([{"id": "a", "url": format!("{server}/moved")}]);
        let sent = body(images, unstored.clone());
        let fetched = app.post_as(uri, JSON, sent).await.result();
        let by_bytes = result_of(&app, &format!("{uri}?store=false"), "t1.jpg").await;
        assert_eq!(fetched["faces"], by_bytes["faces"], "{uri}");
        assert_eq!(fetched["id"], "a");
        let stage = |name: &str| fetched["timings_ms"][name].as_f64().unwrap();
        assert!(stage("fetch") > 0.0 && stage("total") >= stage("fetch") + stage("decode"));
    }
}

#[tokio::test]
async fn every_operation_accepts_urls_for_images_and_masks() {
    let (app, server) = (TestApp::with(&LOCAL).await, images().await);
    let url = json!([{"url": format!("{server}/t1.jpg")}]);
    let sent = body(url.clone(), json!({"timings": true}));
    let enhanced = app.post_as("/enhance", JSON, sent).await.result();
    assert!(enhanced["timings_ms"]["fetch"].as_f64().unwrap() > 0.0);
    let operations = json!({"operations": [{"op": "mask_crop"}], "timings": true});
    let masked = json!({"images": url, "masks": url, "options": operations});
    let processed = app
        .post_as("/process", JSON, masked.to_string())
        .await
        .result();
    assert!(processed["timings_ms"]["fetch"].as_f64().unwrap() > 0.0);
    let row = app.post_as("/preprocess", JSON, body(url, json!({}))).await;
    assert_eq!(row.status, StatusCode::OK);
    assert_eq!(row.headers["x-facescan-index"], "0");
}

#[tokio::test]
async fn a_failed_fetch_does_not_fail_the_other_images() {
    let settings = [&LOCAL[..], &[("FACESCAN__URLS__MAX_BYTES", "2000000")]].concat();
    let (app, server) = (TestApp::with(&settings).await, images().await);
    let images = json!([
        {"id": "good", "url": format!("{server}/t1.jpg")},
        {"id": "missing", "url": format!("{server}/t2.jpg")},
        {"id": "inside", "url": format!("{server}/inside")},
        {"id": "metadata", "url": "http://169.254.169.254/"},
        {"id": "scheme", "url": "file:///etc/passwd"},
        {"id": "user", "url": "http://me:secret@127.0.0.1/"},
        {"id": "no url", "url": "t1.jpg"},
        {"id": "large", "url": format!("{server}/large")},
        {"id": "text", "url": format!("{server}/text")},
        {"id": "both", "url": format!("{server}/t1.jpg"), "data": ""},
    ]);
    let reply = app
        .post_as("/detect", JSON, body(images, json!({"store": false})))
        .await;
    assert_eq!(reply.status, StatusCode::OK);
    let results = reply.json()["results"].clone();
    let told = results.as_array().unwrap().iter().map(|result| {
        let error = &result["error"];
        json!([
            result["id"],
            result["status"],
            error["code"],
            error["detail"]
        ])
    });
    let told: Vec<Value> = told.collect();
    insta::assert_json_snapshot!(told);
    let text = String::from_utf8_lossy(&reply.body);
    for word in ["169.254", "secret", "passwd"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    app.assert_metrics(&[
        "facescan_fetches_total{outcome=\"ok\"} 2",
        "facescan_fetches_total{outcome=\"refused\"} 4",
        "facescan_fetches_total{outcome=\"status\"} 1",
        "facescan_fetches_total{outcome=\"too_large\"} 1",
        "facescan_fetch_seconds_count 8",
    ]);
}

#[tokio::test]
async fn a_single_failed_fetch_sets_the_status_of_the_answer() {
    let (app, server) = (TestApp::with(&LOCAL).await, images().await);
    let mapped = "http://[::ffff:169.254.169.254]/";
    for (url, status, code) in [
        (format!("{server}/t2.jpg"), 422, "url_failed"),
        (mapped.to_owned(), 403, "url_forbidden"),
        ("https://127.0.0.1/".to_owned(), 403, "url_forbidden"),
    ] {
        let sent = body(json!([{"url": url}]), json!({"store": false}));
        let reply = app.post_as("/embed", JSON, sent).await;
        reply.assert_error_of(url, status, code);
    }
    // By default, URLs of this machine are refused.
    let app = TestApp::with(&LOCAL[..2]).await;
    let images = json!([{"url": format!("{server}/t1.jpg")}]);
    let sent = body(images, json!({"store": false}));
    let reply = app.post_as("/embed", JSON, sent).await;
    assert_eq!(reply.code(), "url_forbidden");
}

#[tokio::test]
async fn the_url_is_stored_as_the_source_unless_the_caller_names_one() {
    let (app, server) = (TestApp::with(&LOCAL).await, images().await);
    let url = format!("{server}/moved");
    let (first, second) = ("http://a.test/1", "http://a.test/2");
    let image = json!({"url": url});
    let with_source = json!({"url": url, "source_url": first});
    for (image, options, expected) in [
        (&image, json!({}), url.as_str()),
        (&with_source, json!({}), first),
        (&image, json!({"source_url": second}), second),
    ] {
        let sent = body(json!([image]), options);
        let stored = app.post_as("/detect", JSON, sent).await.result();
        let id = stored["image_id"].as_str().unwrap();
        let kept = app.get(&format!("/images/{id}")).await.json();
        let sources = kept["sources"].as_array().unwrap();
        let is_kept = sources
            .iter()
            .any(|source| source["source_url"] == expected);
        assert!(is_kept, "{expected} in {sources:?}");
    }
}

#[tokio::test]
async fn a_fetch_ends_with_its_request() {
    let silent = Arc::new(Silent::default());
    let app = TestApp::fetching(&LOCAL, Arc::clone(&silent) as Arc<dyn Fetcher>).await;
    let sent = body(json!([{"url": "http://a.test/"}]), json!({"store": false}));
    let within = async |timeout: &str| {
        let headers = [("content-type", JSON), ("x-request-timeout-ms", timeout)];
        app.call("POST", "/detect", &headers, sent.clone()).await
    };
    let late = within("50").await;
    assert_eq!(late.code(), "deadline_exceeded");
    silent.left.notified().now_or_never().unwrap();
    silent.asked.notified().now_or_never().unwrap();
    // The client disconnects.
    tokio::select! {
        _ = within("60000") => unreachable!("the fetch never ends"),
        () = silent.asked.notified() => {}
    }
    silent.left.notified().now_or_never().unwrap();
    app.assert_metrics(&["facescan_fetches_total{outcome=\"abandoned\"} 2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_accepts_urls() {
    let server = images().await;
    let url = format!("{server}/t1.jpg");
    let run = |enabled: &'static str| {
        let url = url.clone();
        tokio::task::spawn_blocking(move || {
            facescan(["scan", "--timings", &url])
                .env("FACESCAN__URLS__ENABLED", enabled)
                .env("FACESCAN__URLS__SCHEMES", "[http]")
                .env("FACESCAN__URLS__ALLOW_PRIVATE", "true")
                .output()
                .unwrap()
        })
    };
    let output = run("true").await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["path"], url.as_str());
    assert_eq!(line["faces"].as_array().unwrap().len(), 6);
    assert!(line["timings_ms"]["fetch"].as_f64().unwrap() > 0.0);
    let output = run("false").await.unwrap();
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["error"]["code"], "url_forbidden");
    assert_eq!(output.status.code(), Some(1));
}
