//! Pages and streams of results end by their bytes, by their key, and by the number of streams.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{
        Request, StatusCode,
        header::{ACCEPT, AUTHORIZATION},
    },
};
use facescan_batches::results::ResultFormat;
use facescan_config::scope::Scope;
use facescan_store::{ItemPage, NewItem, NewItems};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{id_of, item, items, process_all, submit};
use crate::{
    access::{LOCKED, key, send},
    support::app::TestApp,
};

fn export(id: &str, key: &str, accept: &str) -> Request<Body> {
    Request::get(format!("/batches/{id}/items"))
        .header(AUTHORIZATION, format!("Bearer {key}"))
        .header(ACCEPT, accept)
        .body(Body::empty())
        .unwrap()
}

/// Creates an open batch and adds items that no worker can process.
async fn large_batch(app: &TestApp, key: &str, count: usize) -> String {
    let body = json!({"operation": "detect", "open": true, "items": []}).to_string();
    let id = id_of(&send(app, key, ("POST", "/batches"), body).await.json());
    let new = vec![NewItem::default(); count];
    let added = app.app.batches.store.add_items(NewItems {
        batch: Uuid::parse_str(&id).unwrap(),
        items: &new,
        read: count as u64,
        read_before: None,
        now: app.app.batches.clock().now(),
    });
    added.await.unwrap().unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_items_ends_by_its_bytes_and_the_next_one_continues() {
    let app = TestApp::start().await;
    let body = json!({"operation": "embed", "items": [
        item("a", "t1.jpg"), item("b", "obama.jpg"), item("copy", "t1.jpg"), item("last", "biden.jpg"),
    ]});
    let id = id_of(&submit(&app, &body).await);
    process_all(&app).await;
    let all = items(&app, &id, "").await;
    assert_eq!(all.len(), 4);

    // t1.jpg has six faces with vectors of 128 values, and the others have one face.
    let batches = &app.app.batches;
    let uuid = Uuid::parse_str(&id).unwrap();
    let batch = batches.batch("default", uuid).await.unwrap();
    let (mut paged, mut sizes, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = ItemPage {
            after,
            limit: 100,
            max_bytes: 10_000,
        };
        let format = ResultFormat::default();
        let stored = batches.items(&batch, None, page, format).await.unwrap();
        let page = stored.into_page();
        sizes.push(page.items.len());
        // Through text, because a direct conversion to a tree changes the digits of numbers.
        let text = serde_json::to_string(&page.items).unwrap();
        paged.extend(serde_json::from_str::<Vec<Value>>(&text).unwrap());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((sizes, paged), (vec![1, 1, 1, 1], all.clone()));

    // In msgpack the results have the same values.
    let reply = app.send(export(&id, "", "application/msgpack")).await;
    let page: Value = rmp_serde::from_slice(&reply.body).unwrap();
    assert_eq!(page["results"], json!(all));
    let vector = &all[0]["result"]["faces"][0]["embedding"];
    assert_eq!(vector.as_array().unwrap().len(), 128);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_items_ends_when_its_key_is_revoked() {
    let app = TestApp::with(&[LOCKED]).await;
    let reading = key(&app, "default", &[Scope::Batch]).await;
    let id = large_batch(&app, &reading, 600).await;
    let streams = || app.app.batches.watches.count("default");

    let response = app
        .open(export(&id, &reading, "application/x-ndjson"))
        .await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(streams(), 1);
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"index\":0,"), "{first:?}");
    let key_id = reading.split('_').nth(1).unwrap();
    let admin = key(&app, "default", &[Scope::Admin]).await;
    let revoked = send(&app, &admin, ("DELETE", &format!("/keys/{key_id}")), "").await;
    assert_eq!(revoked.status, StatusCode::NO_CONTENT);
    // The stream breaks off, so that nobody takes it for complete.
    assert!(body.frame().await.unwrap().is_err());
    drop(body);
    assert_eq!(streams(), 0);

    let other = key(&app, "default", &[Scope::Batch]).await;
    let whole = app.send(export(&id, &other, "application/x-ndjson")).await;
    let lines = whole.body.split(|byte| *byte == b'\n');
    assert_eq!(lines.filter(|line| !line.is_empty()).count(), 600);
    assert_eq!(streams(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_items_count_with_streams_of_events() {
    let app = TestApp::with(&[("FACESCAN__BATCHES__MAX_EVENT_STREAMS", "1")]).await;
    let id = large_batch(&app, "", 1).await;
    let tenant: Arc<str> = "default".into();
    let held = app.app.batches.hold_stream(&tenant).unwrap();
    let refused = app.send(export(&id, "", "application/x-ndjson")).await;
    refused.assert_error(429, "rate_limited");
    // A page is no stream.
    assert_eq!(items(&app, &id, "").await.len(), 1);
    drop(held);
    let whole = app.send(export(&id, "", "application/x-ndjson")).await;
    assert_eq!(whole.status, StatusCode::OK);
}
