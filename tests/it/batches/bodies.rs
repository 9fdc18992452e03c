//! The formats of submissions, and entries that are refused alone.

use axum::{body::Body, http::StatusCode};
use futures::stream;
use serde_json::{Value, json};

use super::{base64, id_of, item, items, post_json, process_all, read, state_and_ok};
use crate::{
    forms::multipart,
    support::{
        app::{Reply, TestApp, image_file},
        values::assert_fields,
    },
};

const NDJSON: &str = "application/x-ndjson";

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// Returns a body of which only the first part arrives.
fn broken_off(part: String) -> Body {
    let end = Err(std::io::Error::other("the connection broke off"));
    Body::from_stream(stream::iter([Ok(part), end]))
}

async fn post_lines(app: &TestApp, key: &str, body: Body) -> Reply {
    let headers = [("content-type", NDJSON), ("idempotency-key", key)];
    app.call("POST", "/batches", &headers, body).await
}

/// The first request breaks off after two chunks. The second one has the same key, and adds only the rest.
pub(super) async fn continue_an_interrupted_request(app: &TestApp) {
    let mut body = vec![json!({"operation": "detect", "name": "interrupted"})];
    body.extend((0..7).map(|index| item(&format!("image {index}"), "t1.jpg")));
    body.insert(2, json!({"id": "no image"}));
    let text = lines(&body);
    // Six entries arrive, and two chunks of three items are written.
    let broken = post_lines(app, "key 2", broken_off(lines(&body[..8]))).await;
    broken.assert_error(400, "invalid_body");
    let found = app.get("/batches?name=interrupted").await.json();
    assert_fields!(found["results"][0], {"counts": {"queued": 6}, "state": "open"});

    let whole = post_lines(app, "key 2", Body::from(text.clone())).await;
    assert_eq!(whole.status, StatusCode::ACCEPTED, "{:?}", whole.body);
    let receipt = whole.json();
    assert_fields!(receipt, {"accepted": 7, "duplicates": 0, "refused_total": 1});
    let again = post_lines(app, "key 2", Body::from(text)).await;
    assert_eq!(
        (again.status, again.json()),
        (StatusCode::OK, receipt.clone())
    );
    process_all(app).await;
    let done = read(app, &id_of(&receipt)).await;
    assert_eq!(state_and_ok(&done), ("done", 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_with_too_many_lines_that_are_no_items_is_not_read_to_its_end() {
    let app = TestApp::start().await;
    let head = json!({"operation": "detect"});
    let body = |lines: usize| Body::from(format!("{head}\n{}", "null\n".repeat(lines)));
    let most = post_lines(&app, "most", body(100_000)).await;
    assert_eq!(most.status, StatusCode::ACCEPTED);
    assert_eq!(most.json()["refused_total"], 100_000);
    let more = post_lines(&app, "more", body(200_000)).await;
    more.assert_error(400, "invalid_body");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_submits_the_same_batch() {
    let app = TestApp::start().await;
    let image = image_file("obama.jpg");
    let head = json!({"operation": "detect", "options": {"max_faces": 1}});
    let whole = json!({"operation": "detect", "options": {"max_faces": 1}, "items": [{"id": "o.jpg", "data": base64(&image)}]});
    let (form_type, form_body) = multipart(&[
        ("operation", None, b"detect"),
        ("options", None, br#"{"max_faces":1}"#),
        ("image", Some("o.jpg"), &image),
    ]);
    let packed = rmp_serde::to_vec_named(&whole).unwrap();
    let of_lines = lines(&[head, whole["items"][0].clone()]);
    let query = "?operation=detect&options=%7B%22max_faces%22:1%7D";
    let bodies: [(&str, &str, Vec<u8>); 5] = [
        ("", "application/json", whole.to_string().into()),
        ("", "application/msgpack", packed),
        ("", NDJSON, of_lines.into()),
        ("", &form_type, form_body),
        (query, "application/octet-stream", image.into()),
    ];
    let mut results = Vec::new();
    for (query, media_type, body) in bodies {
        let uri = format!("/batches{query}");
        let reply = app.post_as(&uri, media_type, body).await;
        assert_eq!(
            reply.status,
            StatusCode::ACCEPTED,
            "{media_type}: {reply:?}"
        );
        process_all(&app).await;
        let item = items(&app, &id_of(&reply.json()), "").await.remove(0);
        if query.is_empty() {
            assert_eq!(item["id"], "o.jpg", "{media_type}");
        }
        results.push(item["result"]["faces"].clone());
    }
    assert!(
        results.windows(2).all(|pair| pair[0] == pair[1]),
        "{results:?}"
    );
    assert_eq!(results[0].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_line_is_refused_alone() {
    let app = TestApp::with(&[("FACESCAN__LIMITS__MAX_IMAGE_BYTES", "300000")]).await;
    let head = json!({"operation": "detect"});
    let long = "x".repeat(500_000);
    let body = [
        head.to_string(),
        item("good", "t1.jpg").to_string(),
        String::new(),
        "{\"id\": \"cut\"".to_owned(),
        json!({"id": "large", "data": base64(&image_file("obama3.jpg"))}).to_string(),
        json!({"id": "long", "data": long}).to_string(),
        json!({"id": 7, "data": ""}).to_string(),
        json!({"id": "url", "url": "https://example.org/a.jpg"}).to_string(),
        json!({"id": "meta", "data": "aGk=", "metadata": "m".repeat(20_000)}).to_string(),
        json!({"id": "last", "data": base64(&image_file("t1.jpg"))}).to_string(),
    ]
    .join("\n");
    let reply = app.post_as("/batches", NDJSON, body).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{:?}", reply.body);
    let receipt = reply.json();
    assert_eq!(receipt["accepted"], 2);
    let refused = receipt["refused"].as_array().unwrap().iter();
    let refused = refused.map(|entry| json!([entry["index"], entry["error"]["code"]]));
    let expected = [
        json!([1, "invalid_body"]),
        json!([2, "image_too_large"]),
        json!([3, "image_too_large"]),
        json!([4, "invalid_option"]),
        json!([5, "url_forbidden"]),
        json!([6, "invalid_option"]),
    ];
    assert_eq!(refused.collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_cannot_run_is_refused() {
    let app = TestApp::start().await;
    let with = |options: Value| json!({"operation": "detect", "options": options});
    for (body, code, named) in [
        (
            json!({"operation": "detect", "color": 1, "items": []}),
            "invalid_option",
            "color",
        ),
        (with(json!({"crops": true})), "invalid_option", "crops"),
        (with(json!({"store": false})), "invalid_option", "store"),
        (
            json!({"operation": "process"}),
            "invalid_option",
            "operations",
        ),
        (json!([1]), "invalid_body", ""),
    ] {
        let reply = post_json(&app, "/batches", &body).await;
        let detail = reply.json()["detail"].to_string();
        assert!(
            reply.code() == code && detail.contains(named),
            "{body}: {detail}"
        );
    }
    let whole = json!({"operation": "embed", "options": {"kind": "image"}});
    let no_encoder = post_json(&app, "/batches", &whole).await;
    assert_eq!(no_encoder.code(), "no_model");
    let empty = app.post_as("/batches", NDJSON, "").await;
    empty.assert_error(400, "invalid_body");
    let listed = app.get("/batches").await.json();
    assert_eq!(listed["results"], json!([]), "nothing was written");
}

/// A request that breaks off without a key leaves nothing, because nobody could find its batch.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_request_without_a_key_leaves_no_batch() {
    let app = TestApp::with(&[("FACESCAN__BATCHES__CHUNK_SIZE", "1")]).await;
    let text = lines(&[
        json!({"operation": "detect"}),
        item("a", "t1.jpg"),
        item("b", "t1.jpg"),
    ]);
    let reply = app.post_as("/batches", NDJSON, broken_off(text)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(app.get("/batches").await.json()["results"], json!([]));
    let files = super::stored_files(&app.app.config.data_dir.join("payloads"));
    assert!(files.is_empty(), "{files:?}");
}
