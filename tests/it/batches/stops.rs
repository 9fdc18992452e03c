//! Items that take too long, and batches that are cancelled or deleted while workers have their items.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::http::StatusCode;
use facescan_config::scope::Scope;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{id_of, item, items, post_json, process_all, read, submit, worker};
use crate::access::{LOCKED, key, send};
use crate::support::{
    app::TestApp,
    database::{Database, on_postgres},
    silent::Silent,
    values::assert_fields,
};

/// More than the work on a chunk may go on after its batch was cancelled, and a stall of the machine.
const PATIENCE: Duration = Duration::from_secs(10);

async fn app(settings: &[(&str, &str)], silent: &Arc<Silent>) -> TestApp {
    let enabled = ("FACESCAN__URLS__ENABLED", "true");
    let settings: Vec<_> = settings.iter().copied().chain([enabled]).collect();
    TestApp::fetching(&settings, Arc::clone(silent) as _).await
}

/// A batch whose items are never done, and one more item.
fn silent_batch() -> Value {
    let silent = |id: usize| json!({"id": id.to_string(), "url": "https://silent.test/"});
    let mut all: Vec<_> = (0..3).map(silent).collect();
    all.push(item("done", "t1.jpg"));
    json!({"operation": "detect", "items": all})
}

/// Submits a batch and stops it when its items are in work. Returns its id after the worker has returned its chunk.
async fn stop_in_work<F: Future<Output = ()>>(
    app: &TestApp,
    silent: &Silent,
    stop: impl FnOnce(String) -> F,
) -> String {
    let id = id_of(&submit(app, &silent_batch()).await);
    let end = CancellationToken::new();
    let mut running = tokio::spawn(worker(app).run(1, end.clone()));
    silent.asked.notified().await;
    stop(id.clone()).await;
    timeout(PATIENCE, async {
        while silent.running.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the items go on");
    // The worker returns when its chunk is saved.
    end.cancel();
    timeout(PATIENCE, &mut running).await.unwrap().unwrap();
    id
}

async fn story(settings: &[(&str, &str)]) {
    let silent = Arc::new(Silent::default());
    let app = app(settings, &silent).await;
    let cancelled = stop_in_work(&app, &silent, async |id| {
        let reply = post_json(&app, &format!("/batches/{id}/cancel"), &json!({})).await;
        assert_eq!(reply.status, StatusCode::OK);
    })
    .await;
    check_cancelled(&app, &cancelled).await;

    // Another process cancels, so only the database knows.
    let cancelled = stop_in_work(&app, &silent, async |id| {
        let (store, id) = (&app.app.batches.store, Uuid::parse_str(&id).unwrap());
        let now = app.app.batches.clock().now();
        let cancelled = store.cancel_batch("default", id, now).await;
        assert!(cancelled.unwrap().is_some());
    })
    .await;
    check_cancelled(&app, &cancelled).await;

    let deleted = stop_in_work(&app, &silent, async |id| {
        let reply = app.delete(&format!("/batches/{id}")).await;
        assert_eq!(reply.status, StatusCode::NO_CONTENT);
    })
    .await;
    let reply = app.get(&format!("/batches/{deleted}")).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    app.assert_metrics(&["facescan_batch_leases_lost_total 0"]);
}

/// Every item has ended once.
async fn check_cancelled(app: &TestApp, id: &str) {
    let batch = read(app, id).await;
    let count = |state: &str| batch["counts"][state].as_u64().unwrap();
    assert_eq!(batch["state"], "cancelled");
    assert_eq!((count("running"), count("queued")), (0, 0), "{batch}");
    assert_eq!(count("ok") + count("cancelled"), 4, "{batch}");
    assert!(count("cancelled") >= 3, "{batch}");
    let states = items(app, id, "").await;
    let cancelled = states.iter().filter(|item| item["state"] == "cancelled");
    assert_eq!(cancelled.count() as u64, count("cancelled"));
    process_all(app).await;
    assert_eq!(read(app, id).await["counts"], batch["counts"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_cancelled_or_deleted_stops_in_every_process() {
    story(&[]).await;
    on_postgres(|database: Database| async move {
        story(&[("DATABASE_URL", database.url().as_str())]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_takes_too_long_fails_and_its_neighbors_are_done() {
    let settings = [
        ("FACESCAN__BATCHES__ITEM_TIMEOUT_MS", "2000"),
        ("FACESCAN__BATCHES__MAX_ATTEMPTS", "1"),
    ];
    let app = app(&settings, &Arc::default()).await;
    let id = id_of(&submit(&app, &silent_batch()).await);
    process_all(&app).await;
    let batch = read(&app, &id).await;
    assert_eq!(batch["state"], "done");
    let listed = items(&app, &id, "").await;
    for late in &listed[..3] {
        assert_fields!(late, {"state": "dead", "error": {"code": "deadline_exceeded"}});
    }
    assert_eq!(listed[3]["state"], "ok", "{:?}", listed[3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_hosts_of_several_tenants_leave_chunks_to_others() {
    let silent = Arc::new(Silent::default());
    let app = app(&[LOCKED, ("FACESCAN__BATCHES__CHUNK_SIZE", "1")], &silent).await;
    let url = |id: usize| json!({"id": id.to_string(), "url": "https://silent.test/"});
    let urls: Vec<_> = (0..8).map(url).collect();
    let end = CancellationToken::new();
    let running = tokio::spawn(worker(&app).run(2, end.clone()));
    for tenant in ["first", "second", "third"] {
        let key = key(&app, tenant, &Scope::ALL).await;
        let body = json!({"operation": "detect", "items": urls}).to_string();
        let reply = send(&app, &key, ("POST", "/batches"), body).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{:?}", reply.body);
    }
    let all_in_work = async {
        while silent.running.load(Ordering::SeqCst) < 5 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, all_in_work).await.expect("tenants wait");

    let key = key(&app, "patient", &Scope::ALL).await;
    let body = json!({"operation": "detect", "items": [item("a", "t1.jpg")]}).to_string();
    let reply = send(&app, &key, ("POST", "/batches"), body).await;
    let batch = format!("/batches/{}", id_of(&reply.json()));
    let done = async {
        while send(&app, &key, ("GET", &batch), "").await.json()["state"] != "done" {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, done)
        .await
        .expect("the batch waits for silent hosts");
    assert_eq!(silent.running.load(Ordering::SeqCst), 5);
    end.cancel();
    timeout(PATIENCE, running).await.unwrap().unwrap();
}
