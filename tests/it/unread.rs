//! Answers that their clients do not read.

use axum::{
    body::Body,
    http::{
        Request, StatusCode,
        header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
    },
    response::Response,
};
use facescan_config::scope::Scope;
use facescan_imaging::encode::{OutputFormat, encode};
use http_body_util::BodyExt;
use image::RgbImage;

use crate::{
    access::{LOCKED, key},
    support::app::TestApp,
};

/// A square of this side, in bytes of samples, is about three megabytes.
const SIDE: u32 = 1024;

/// Asks for a large response to a tiny image.
async fn ask(app: &TestApp, key: &str, uri: &str, accept: &str) -> Response {
    let tiny = encode(&RgbImage::new(1, 1), OutputFormat::Png).unwrap();
    let request = Request::post(uri)
        .header(CONTENT_TYPE, "image/png")
        .header(ACCEPT, accept)
        .header(AUTHORIZATION, format!("Bearer {key}"));
    app.open(request.body(Body::from(tiny)).unwrap()).await
}

fn resize(side: u32, format: &str) -> String {
    let operations = format!(r#"[{{"op":"resize","width":{side},"height":{side}}}]"#);
    let operations: String = url::form_urlencoded::byte_serialize(operations.as_bytes()).collect();
    format!("/process?format={format}&operations={operations}")
}

#[tokio::test]
async fn answers_that_are_not_read_take_from_the_tenants_bytes() {
    let limit = ("FACESCAN__ADMISSION__MAX_BYTES", "20971520");
    let app = TestApp::with(&[LOCKED, limit]).await;
    let alice = key(&app, "alice", &[Scope::Infer]).await;
    let bob = key(&app, "bob", &[Scope::Infer]).await;
    let row = format!("/preprocess?width={SIDE}&height=512&dtype=f16");
    for (uri, accept) in [
        (resize(SIDE, "npy"), "application/x-npy"),
        (resize(SIDE, "npy"), "application/json"),
        (resize(SIDE, "npy"), "application/msgpack"),
        (row.clone(), "application/x-npy"),
        (row.clone(), "application/json"),
        (row, "multipart/mixed"),
    ] {
        let mut unread = Vec::new();
        let refused = loop {
            let answer = ask(&app, &alice, &uri, accept).await;
            if answer.status() != StatusCode::OK {
                break answer.status();
            }
            unread.push(answer);
            assert!(unread.len() <= 6, "{uri} {accept}");
        };
        assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS, "{uri} {accept}");
        assert!(!unread.is_empty(), "{uri} {accept}");
        let small = ask(&app, &alice, &resize(64, "png"), "image/png").await;
        assert_eq!(small.status(), StatusCode::OK, "{uri} {accept}");
        let other = ask(&app, &bob, &resize(400, "npy"), "application/x-npy").await;
        assert_eq!(other.status(), StatusCode::OK, "{uri} {accept}");
        // Each is released when it was read.
        for answer in unread {
            let body = answer.into_body().collect().await.unwrap();
            let length = body.to_bytes().len();
            assert!(length >= 3 << 20, "{uri} {accept}: {length}");
        }
        let served = ask(&app, &alice, &resize(SIDE, "npy"), "application/x-npy").await;
        assert_eq!(served.status(), StatusCode::OK, "{uri} {accept}");
    }
}
