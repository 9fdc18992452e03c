//! Work on large images beside the requests of another tenant, and its price.

use std::{pin::pin, time::Duration};

use axum::{
    body::Body,
    http::{
        Request, StatusCode,
        header::{AUTHORIZATION, CONTENT_TYPE},
    },
};
use base64::{Engine, prelude::BASE64_STANDARD};
use facescan_config::scope::Scope;
use serde_json::{Value, json};

use crate::{
    access::{LOCKED, key, send},
    support::app::{TestApp, image_file},
};

/// A lossless WebP of 10,000 × 10,000 pixels.
const LARGE: &[u8] =
    b"RIFF\x1e\0\0\0WEBPVP8L\x11\0\0\0/\x0f\xe7\xc3\x09\x07\xd0\x84&4\xa1\xff\x81\x88\xe8\x7f\0\0";

fn request(key: &str, uri: &str, image: impl Into<Body>) -> Request<Body> {
    Request::post(uri)
        .header(AUTHORIZATION, format!("Bearer {key}"))
        .header(CONTENT_TYPE, "application/octet-stream")
        .body(image.into())
        .unwrap()
}

fn process_uri(operations: &Value) -> String {
    let operations = operations.to_string();
    let operations = url::form_urlencoded::byte_serialize(operations.as_bytes());
    format!("/process?operations={}", operations.collect::<String>())
}

fn process(key: &str, operations: &Value) -> Request<Body> {
    request(key, &process_uri(operations), LARGE)
}

fn blurs(count: usize) -> Value {
    vec![json!({"op": "gaussian_blur", "kernel": 255, "sigma": 100}); count].into()
}

async fn one_worker() -> TestApp {
    TestApp::with(&[LOCKED, ("FACESCAN__IMAGING__WORKERS", "1")]).await
}

#[tokio::test]
async fn a_tenant_is_served_while_the_only_worker_blurs_a_large_image_of_another() {
    let app = one_worker().await;
    let alice = key(&app, "alice", &[Scope::Infer]).await;
    let bob = key(&app, "bob", &[Scope::Infer]).await;
    let mut dear = Box::pin(app.send(process(&alice, &blurs(1))));
    let load = app.app.pipeline.pool.load();
    {
        let mut others = pin!(async {
            while load().busy == 0 {
                tokio::task::yield_now().await;
            }
            // The image is decoded meanwhile, and then blurred.
            for _ in 0..5 {
                let uri = "/detect?store=false";
                let reply = app.send(request(&bob, uri, image_file("t1.jpg"))).await;
                assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
            }
        });
        tokio::select! {
            reply = &mut dear => panic!("the large image took no time: {}", reply.status),
            () = &mut others => {}
        }
    }
    drop(dear);
    let is_free = async {
        while load().busy + load().waiting > 0 {
            tokio::task::yield_now().await;
        }
    };
    // A checkpoint ends the work. The limit is that of a very slow machine.
    tokio::time::timeout(Duration::from_secs(5), is_free)
        .await
        .expect("the work goes on although its client has left");
}

#[tokio::test]
async fn a_large_input_of_one_tenant_does_not_delay_another() {
    let app = one_worker().await;
    let alice = key(&app, "alice", &[Scope::Infer]).await;
    let bob = key(&app, "bob", &[Scope::Infer]).await;
    let uri = "/detect?store=false&det_size=4096";
    let mut large = Box::pin(app.send(request(&alice, uri, image_file("t1.jpg"))));
    let load = app.app.pipeline.long_pool.load();
    let mut others = pin!(async {
        while load().busy == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..3 {
            let uri = "/detect?store=false";
            let reply = app.send(request(&bob, uri, image_file("t1.jpg"))).await;
            assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        }
    });
    tokio::select! {
        reply = &mut large => panic!("the large input took no time: {reply:?}"),
        () = &mut others => {}
    }
    let reply = large.await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
}

#[tokio::test]
async fn operations_that_take_too_much_work_are_refused_before_they_run() {
    let app = one_worker().await;
    let alice = key(&app, "alice", &[Scope::Infer]).await;
    let reply = app.send(process(&alice, &blurs(16))).await;
    reply.assert_error(413, "too_much_work");
    let detail = reply.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("megapixel passes"), "{detail}");
    // Masks are decoded before the image.
    let entry = json!({"data": BASE64_STANDARD.encode(LARGE)});
    let body = json!({"images": [entry], "masks": vec![&entry; 20], "options": {"operations": [{"op": "mask_crop"}]}});
    let reply = send(&app, &alice, ("POST", "/process"), body.to_string()).await;
    assert_eq!(reply.code(), "too_much_work", "{reply:?}");
    // A region is cheap, and has no other price on a large image.
    let region = json!([
        {"op": "gaussian_blur", "kernel": 255, "sigma": 100, "region": [0, 0, 20, 20]},
        {"op": "crop", "box": [0, 0, 10, 10]},
    ]);
    let reply = app.send(process(&alice, &region)).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
}

/// The image has 1.1 megapixels and six faces. Decoding takes 23 passes, the search 9, and the vector of a face 13.
#[tokio::test]
async fn runs_of_models_and_the_work_on_faces_have_a_price() {
    let app = TestApp::with(&[("FACESCAN__LIMITS__MAX_WORK", "100")]).await;
    let post = async |uri: &str| app.post(uri, image_file("t1.jpg")).await;
    let operations = |list: Value| format!("{}&det_size=1280", process_uri(&list));
    for uri in [
        "/detect?store=false",
        "/embed?store=false&max_faces=2",
        "/quality?store=false",
        "/enhance?upscale=1",
        &operations(json!([{"op": "gaussian_blur", "kernel": 3, "sigma": 1, "faces": true}])),
    ] {
        let reply = post(uri).await;
        assert_eq!(reply.status, StatusCode::OK, "{uri}: {reply:?}");
    }
    for uri in [
        "/detect?store=false&det_size=4096",
        "/detect?store=false&det_size=2048&second_det_size=1024",
        "/embed?store=false",
        "/enhance?upscale=1&identity=true&det_size=1280",
        // The second search, which checks that no face is left, is one too many.
        &operations(json!([{"op": "anonymize"}])),
        &operations(
            json!([{"op": "crop", "faces": true}, {"op": "anonymize"}, {"op": "anonymize"}]),
        ),
    ] {
        let reply = post(uri).await;
        reply.assert_error_of(uri, 413, "too_much_work");
    }
}
