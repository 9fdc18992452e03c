//! Workers that die, and parts of the installation that are unreachable.

use facescan_store::LeasedChunk;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    base64, id_of, item, items, post_json, process_all, read, state_and_ok, submit, worker,
};
use crate::support::{
    app::{TestApp, image_file},
    values::assert_fields,
};

/// Waits for a chunk.
async fn claim(app: &TestApp) -> LeasedChunk {
    loop {
        match worker(app).claim(Vec::new()).await.unwrap() {
            Some(chunk) => break chunk,
            None => tokio::task::yield_now().await,
        }
    }
}

/// A chunk whose lease ended runs item by item, and no item is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_of_a_dead_worker_is_processed_again() {
    let app = TestApp::with(&[("FACESCAN__BATCHES__LEASE_MS", "100")]).await;
    let body =
        json!({"operation": "detect", "items": [item("a", "t1.jpg"), item("b", "obama.jpg")]});
    let id = id_of(&submit(&app, &body).await);
    let dead = worker(&app).claim(Vec::new()).await.unwrap().unwrap();
    assert_eq!(read(&app, &id).await["counts"]["running"], 2);
    let again = claim(&app).await;
    assert_eq!(again.expired_leases, 1);
    let stop = CancellationToken::new();
    worker(&app).process_chunk(again, &stop).await;
    // The dead worker comes back with its old lease.
    worker(&app).process_chunk(dead, &stop).await;
    let done = read(&app, &id).await;
    assert_eq!(state_and_ok(&done), ("done", 2));
    let attempts: Vec<_> = items(&app, &id, "")
        .await
        .iter()
        .map(|item| item["attempts"].clone())
        .collect();
    assert_eq!(attempts, [1, 1]);
    app.assert_metrics(&["facescan_batch_leases_lost_total 1"]);
}

/// An image that kills its worker at every attempt is dead, and the other items of its chunk are done.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_kills_its_worker_is_dead_in_the_end() {
    let settings = [
        ("FACESCAN__BATCHES__LEASE_MS", "100"),
        ("FACESCAN__BATCHES__MAX_ATTEMPTS", "2"),
    ];
    let app = TestApp::with(&settings).await;
    let body =
        json!({"operation": "detect", "items": [item("a", "t1.jpg"), item("b", "obama.jpg")]});
    let id = id_of(&submit(&app, &body).await);
    let store = &app.app.batches.store;
    // Three workers die: with the whole chunk, and twice with the first item.
    for attempt in 0..3 {
        let chunk = claim(&app).await;
        if attempt > 0 {
            assert!(store.begin_item(&chunk.lease, 0).await.unwrap());
        }
    }
    while read(&app, &id).await["state"] != "done" {
        process_all(&app).await;
    }
    let listed = items(&app, &id, "").await;
    assert_fields!(listed[0], {"state": "dead", "error": {"code": "worker_died"}});
    assert_eq!(listed[1]["state"], "ok");
    // Another life.
    let uri = format!("/batches/{id}/retry");
    let retried = app.post_as(&uri, "application/json", "").await;
    assert_eq!(retried.json()["counts"]["queued"], 1, "{retried:?}");
    process_all(&app).await;
    assert_eq!(read(&app, &id).await["counts"]["ok"], 2);
}

/// A worker that is stopped returns the items that it has not begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_worker_returns_its_chunk() {
    let app = TestApp::start().await;
    let body = json!({"operation": "detect", "items": [item("a", "t1.jpg")]});
    let id = id_of(&submit(&app, &body).await);
    let chunk = worker(&app).claim(Vec::new()).await.unwrap().unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    worker(&app).process_chunk(chunk, &stop).await;
    assert_eq!(read(&app, &id).await["counts"]["queued"], 1);
    process_all(&app).await;
    let listed = items(&app, &id, "").await;
    assert_fields!(listed[0], {"state": "ok", "attempts": 1});
}

/// If the images cannot be written, the submission fails and can be sent again. If they cannot be read, the items wait.
#[tokio::test(flavor = "multi_thread")]
async fn items_wait_for_the_store_of_images() {
    let app = TestApp::with(&[("FACESCAN__BATCHES__RETRY_MS", "0")]).await;
    let payloads = app.app.config.data_dir.join("payloads");
    let body = json!({"operation": "detect", "items": [item("a", "t1.jpg")]});
    let away = payloads.with_extension("away");
    std::fs::write(&payloads, "a file in the place of the folder").unwrap();
    let reply = super::post_json(&app, "/batches", &body).await;
    reply.assert_error(503, "payloads_unavailable");
    std::fs::remove_file(&payloads).unwrap();

    let id = id_of(&submit(&app, &body).await);
    std::fs::rename(&payloads, &away).unwrap();
    std::fs::write(&payloads, "a file in the place of the folder").unwrap();
    let chunk = worker(&app).claim(Vec::new()).await.unwrap().unwrap();
    let stop = CancellationToken::new();
    worker(&app).process_chunk(chunk, &stop).await;
    let listed = items(&app, &id, "").await;
    assert_fields!(listed[0], {"state": "queued", "attempts": 0});
    std::fs::remove_file(&payloads).unwrap();
    std::fs::rename(&away, &payloads).unwrap();
    process_all(&app).await;
    assert_eq!(items(&app, &id, "").await[0]["state"], "ok");
}

#[tokio::test]
async fn items_that_are_tried_again_count_as_waiting() {
    let app = TestApp::with(&[("FACESCAN__RATE_LIMITS__TENANT_WAITING_ITEMS", "2")]).await;
    let cut = |bytes: usize| json!({"data": base64(&image_file("t1.jpg").slice(..bytes))});
    let broken = json!({"operation": "detect", "items": [cut(2000), cut(3000)]});
    let batch = id_of(&submit(&app, &broken).await);
    process_all(&app).await;
    let whole = json!({"operation": "detect", "items": [item("a", "t1.jpg")]});
    submit(&app, &whole).await;
    let retry = async || post_json(&app, &format!("/batches/{batch}/retry"), &json!({})).await;
    assert_eq!(retry().await.code(), "rate_limited");
    process_all(&app).await;
    assert!(retry().await.status.is_success());
}
