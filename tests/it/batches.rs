//! Durable batches over HTTP, with the worker: one story on both databases.

mod bodies;
mod client;
mod exports;
mod faults;
mod fetches;
mod nats;
mod operations;
mod s3;
mod stops;
mod watches;
mod webhooks;

use std::{collections::BTreeMap, sync::Arc};

use axum::http::{StatusCode, header::CONTENT_TYPE};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use facescan::http::error::describe_item;
use facescan_batches::worker::Worker;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{
    app::{Reply, TestApp, image_file, result_of},
    database::{Database, on_both},
    values::assert_fields,
};

/// Returns a worker whose waits are as short as they can be.
pub fn worker(app: &TestApp) -> Worker {
    let batches = app.app.batches.clone();
    Worker::new(batches, "test".into(), describe_item, Arc::new(|| 0.0))
}

/// Processes chunks until none is ready.
pub async fn process_all(app: &TestApp) {
    let worker = worker(app);
    let stop = CancellationToken::new();
    while let Some(chunk) = worker.claim(Vec::new()).await.unwrap() {
        worker.process_chunk(chunk, &stop).await;
    }
}

pub fn base64(image: &Bytes) -> String {
    BASE64_STANDARD.encode(image)
}

/// Returns an item with the bytes of a shipped image.
pub fn item(id: &str, name: &str) -> Value {
    json!({"id": id, "data": base64(&image_file(name))})
}

pub async fn post_json(app: &TestApp, uri: &str, body: &Value) -> Reply {
    app.post_as(uri, "application/json", body.to_string()).await
}

/// Creates a batch. The status must be 202.
pub async fn submit(app: &TestApp, body: &Value) -> Value {
    let reply = post_json(app, "/batches", body).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{:?}", reply.body);
    reply.json()
}

pub fn id_of(receipt: &Value) -> String {
    receipt["id"].as_str().unwrap().to_owned()
}

/// Returns the batch.
pub async fn read(app: &TestApp, id: &str) -> Value {
    let reply = app.get(&format!("/batches/{id}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.body);
    reply.json()
}

/// Returns the state of a batch, and the number of items that have a result.
pub fn state_and_ok(batch: &Value) -> (&str, u64) {
    let ok = batch["counts"]["ok"].as_u64().unwrap();
    (batch["state"].as_str().unwrap(), ok)
}

/// Returns the items of a page.
pub async fn items(app: &TestApp, id: &str, query: &str) -> Vec<Value> {
    let reply = app.get(&format!("/batches/{id}/items?{query}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.body);
    reply.json()["results"].as_array().unwrap().clone()
}

/// Returns the items of a batch as lines.
pub async fn as_lines(app: &TestApp, uri: &str) -> Reply {
    let accept = ("accept", "application/x-ndjson");
    app.call("GET", uri, &[accept], "").await
}

fn states(items: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    items
        .iter()
        .map(|item| (text(&item["id"]), text(&item["state"])))
        .collect()
}

/// Sends a request with an idempotency key.
pub async fn post_with_key(app: &TestApp, key: &str, body: &Value) -> Reply {
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", key),
    ];
    app.call("POST", "/batches", &headers, body.to_string())
        .await
}

async fn story(app: &TestApp) {
    collect(app).await;
    grow(app).await;
    repeat(app).await;
    cancel_and_delete(app).await;
    watch(app).await;
}

/// Every item has a result or an error of its own.
async fn collect(app: &TestApp) {
    let damaged = json!({"id": "damaged", "data": BASE64_STANDARD.encode(b"no image")});
    let body = json!({
        "operation": "embed", "name": "album", "options": {"max_faces": 2},
        "items": [
            item("a", "t1.jpg"), item("b", "obama.jpg"), damaged, item("a", "biden.jpg"),
            {"id": "none"}, item("copy", "t1.jpg"),
        ],
    });
    let receipt = submit(app, &body).await;
    assert_fields!(receipt, {"accepted": 4, "duplicates": 1});
    assert_fields!(receipt["refused"][0], {"index": 4, "error": {"code": "missing_image"}});
    let id = id_of(&receipt);
    let queued = read(app, &id).await;
    assert_fields!(queued, {"state": "queued", "counts": {"queued": 4}});
    assert_eq!(queued["options"]["det_size"], 640, "defaults are stored");

    process_all(app).await;
    let done = read(app, &id).await;
    assert_eq!(done["state"], "done");
    let counts = json!({"queued": 0, "running": 0, "ok": 3, "error": 1, "dead": 0, "cached": 1, "cancelled": 0});
    assert_eq!(done["counts"], counts);
    let listed = items(app, &id, "").await;
    let expected = [
        ("a", "ok"),
        ("b", "ok"),
        ("damaged", "error"),
        ("copy", "ok"),
    ];
    let expected = expected.map(|(id, state)| (id.to_owned(), state.to_owned()));
    assert_eq!(states(&listed), expected);
    assert_eq!(listed[2]["error"]["code"], "unsupported_media_type");
    // The result is that of the operation's own route, and it is stored.
    let own = result_of(app, "/embed?max_faces=2", "t1.jpg").await;
    assert_eq!(own["cached"], true);
    for (position, cached) in [(0, false), (3, true)] {
        let result = &listed[position]["result"];
        assert_fields!(result, {"faces": own["faces"], "image_id": own["image_id"]});
        assert_eq!(
            (&result["cached"], &listed[position]["cached"]),
            (&cached.into(), &cached.into())
        );
    }
    let failed = items(app, &id, "state=error&limit=1").await;
    assert_eq!(failed[0]["index"], 2);
    let without = items(app, &id, "embedding_format=none&after=0&limit=1").await;
    assert!(without[0]["result"]["faces"][0].get("embedding").is_none());
    assert!(without[0]["result"]["faces"][0].get("bbox").is_some());

    // An image that was seen before is answered from the database.
    let again = submit(app, &body).await;
    process_all(app).await;
    let again = read(app, &id_of(&again)).await;
    assert_fields!(again, {"state": "done", "counts": {"cached": 3}});
    let named = app.get("/batches?name=album&state=done").await.json();
    assert_eq!(named["results"].as_array().unwrap().len(), 2);
    let first = app.get("/batches?limit=1").await.json();
    let next = first["next"].as_str().unwrap();
    let second = app
        .get(&format!("/batches?limit=1&after={next}"))
        .await
        .json();
    assert_eq!(second["results"][0]["id"], id.as_str());
}

/// A crawl is one open batch.
async fn grow(app: &TestApp) {
    let receipt = submit(app, &json!({"operation": "detect", "open": true})).await;
    assert_eq!(receipt["state"], "open");
    let id = id_of(&receipt);
    let uri = format!("/batches/{id}/items");
    for (name, accepted) in [("a", 1), ("a", 0), ("b", 1)] {
        let body = json!({"items": [item(name, "t1.jpg")]});
        let added = post_json(app, &uri, &body).await;
        assert_eq!(added.status, StatusCode::ACCEPTED);
        assert_eq!(added.json()["accepted"], accepted);
    }
    process_all(app).await;
    let open = read(app, &id).await;
    assert_eq!(state_and_ok(&open), ("open", 2));
    let closed = post_json(app, &format!("/batches/{id}/close"), &json!({})).await;
    assert_eq!(closed.json()["state"], "done");
    let late = post_json(app, &uri, &json!({"items": [item("c", "t1.jpg")]})).await;
    late.assert_error(409, "conflict");
}

/// The same request finds its batch. An interrupted request continues.
async fn repeat(app: &TestApp) {
    let body = json!({"operation": "detect", "items": [item("a", "t1.jpg"), {"id": "x"}, item("a", "t1.jpg")]});
    let first = post_with_key(app, "key 1", &body).await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    let again = post_with_key(app, "key 1", &body).await;
    assert_eq!((again.status, again.json()), (StatusCode::OK, first.json()));
    let other = json!({"operation": "detect", "items": [item("b", "t1.jpg")]});
    let conflict = post_with_key(app, "key 1", &other).await;
    conflict.assert_error(409, "idempotency_conflict");
    bodies::continue_an_interrupted_request(app).await;
    process_all(app).await;
}

async fn cancel_and_delete(app: &TestApp) {
    let body = json!({"operation": "quality", "items": [item("a", "obama2.jpg"), item("b", "obama3.jpg")]});
    let id = id_of(&submit(app, &body).await);
    let cancelled = post_json(app, &format!("/batches/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.json()["state"], "cancelled");
    assert_eq!(cancelled.json()["counts"]["cancelled"], 2);
    let retried = post_json(app, &format!("/batches/{id}/retry"), &json!({})).await;
    retried.assert_error(409, "conflict");

    let id = id_of(&submit(app, &body).await);
    process_all(app).await;
    let listed = items(app, &id, "").await;
    let image = listed[0]["result"]["image_id"].as_str().unwrap().to_owned();
    assert_eq!(
        app.get(&format!("/images/{image}")).await.status,
        StatusCode::OK
    );
    let uri = format!("/batches/{id}");
    assert_eq!(app.delete(&uri).await.status, StatusCode::NO_CONTENT);
    for reply in [
        app.get(&uri).await,
        app.delete(&uri).await,
        app.get(&format!("{uri}/items")).await,
    ] {
        reply.assert_error(404, "not_found");
    }
    let erased = app.get(&format!("/images/{image}")).await;
    assert_eq!(
        erased.status,
        StatusCode::NOT_FOUND,
        "nothing else uses the result"
    );
}

/// The events of a batch that has ended are its last state, and then the end of the stream.
async fn watch(app: &TestApp) {
    let body = json!({"operation": "detect", "items": [item("a", "biden.jpg")]});
    let id = id_of(&submit(app, &body).await);
    process_all(app).await;
    let reply = app.get(&format!("/batches/{id}/events")).await;
    assert_eq!(reply.headers[CONTENT_TYPE], "text/event-stream");
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    let data = text
        .lines()
        .find_map(|line| line.strip_prefix("data: "))
        .unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(state_and_ok(&data), ("done", 1));
    let event = text
        .lines()
        .find_map(|line| line.strip_prefix("id: "))
        .unwrap();
    let (uri, last) = (format!("/batches/{id}/events"), ("last-event-id", event));
    let none = app.call("GET", &uri, &[last], "").await;
    assert!(none.body.is_empty(), "the client has the last event");

    // All items as lines, and as msgpack.
    let lines = as_lines(app, &format!("/batches/{id}/items?embedding_format=none")).await;
    let line: Value = serde_json::from_slice(lines.body.trim_ascii_end()).unwrap();
    assert_eq!(line, items(app, &id, "").await[0]);
    let (uri, accept) = (
        format!("/batches/{id}/items"),
        ("accept", "application/msgpack"),
    );
    let packed = app.call("GET", &uri, &[accept], "").await;
    let packed: Value = rmp_serde::from_slice(&packed.body).unwrap();
    assert_eq!(packed["results"][0]["state"], "ok");
}

on_both!(
    items_are_run_counted_and_given_out,
    |database: Database| async move {
        let chunks = ("FACESCAN__BATCHES__CHUNK_SIZE", "3");
        let app = TestApp::with_database(&database, &[chunks]).await;
        story(&app).await;
        app.app.store.close().await;
    }
);

/// Returns the files below a folder by their path in it.
pub fn stored_files(folder: &std::path::Path) -> BTreeMap<String, u64> {
    let files = walkdir::WalkDir::new(folder).into_iter().flatten();
    files
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let path = entry.path().strip_prefix(folder).unwrap();
            (path.display().to_string(), entry.metadata().unwrap().len())
        })
        .collect()
}
