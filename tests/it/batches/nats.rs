//! The queue on a real NATS server, which is killed and loses its storage.

use std::{sync::Arc, time::Duration};

use facescan::http::error::describe_item;
use facescan_batches::worker::Worker;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{id_of, item, items, read, submit};
use crate::support::{app::TestApp, nats::NatsServer};

/// Starts the tasks of a server: a worker and the queue.
fn start(app: &TestApp, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    let batches = app.app.batches.clone();
    let worker = Worker::new(
        batches.clone(),
        "test".into(),
        describe_item,
        Arc::new(|| 0.5),
    );
    tasks.spawn(worker.run(2, stop.clone()));
    let stop = stop.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = batches.queue.run() => {}
        }
    });
}

async fn until_done(app: &TestApp, id: &str) {
    let done = async {
        while read(app, id).await["state"] != "done" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), done)
        .await
        .expect("the batch is not done");
}

async fn app(nats: &NatsServer, poll_ms: &str) -> TestApp {
    let url = nats.url();
    TestApp::with(&[
        ("FACESCAN__BATCHES__QUEUE", &url),
        ("FACESCAN__BATCHES__CHUNK_SIZE", "1"),
        ("FACESCAN__BATCHES__POLL_MS", poll_ms),
    ])
    .await
}

/// The worker would look at the database only after half a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_wakes_a_worker_for_each_chunk() {
    let nats = NatsServer::start();
    let app = app(&nats, "60000").await;
    let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
    start(&app, &stop, &mut tasks);
    let items: Vec<_> = (0..8).map(|n| item(&n.to_string(), "t1.jpg")).collect();
    let body = json!({"operation": "detect", "items": items});
    let id = id_of(&submit(&app, &body).await);
    tokio::time::timeout(Duration::from_secs(20), until_done(&app, &id))
        .await
        .expect("the messages wake the worker");
    stop.cancel();
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_away_or_emptied_loses_nothing() {
    let mut nats = NatsServer::start();
    let app = app(&nats, "100").await;
    let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
    start(&app, &stop, &mut tasks);
    let body = |name: &str| {
        let items: Vec<_> = (0..4)
            .map(|n| item(&format!("{name} {n}"), "t1.jpg"))
            .collect();
        json!({"operation": "detect", "items": items})
    };

    let with_queue = id_of(&submit(&app, &body("first")).await);
    until_done(&app, &with_queue).await;
    nats.kill();
    let without_queue = id_of(&submit(&app, &body("second")).await);
    until_done(&app, &without_queue).await;
    nats.empty();
    nats.restart();
    let with_empty_queue = id_of(&submit(&app, &body("third")).await);
    until_done(&app, &with_empty_queue).await;
    stop.cancel();
    tasks.join_all().await;
    for id in [with_queue, without_queue, with_empty_queue] {
        let items = items(&app, &id, "").await;
        assert!(
            items
                .iter()
                .all(|item| item["state"] == "ok" && item["attempts"] == 1),
            "{items:?}"
        );
    }
}
