use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::{
    Router,
    body::Bytes,
    http::header::CONNECTION,
    routing::{get, post},
};
use clap::Parser;
use http::HeaderValue;
use tokio::net::TcpListener;

use super::*;

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    workload: Workload,
}

fn workload() -> Workload {
    let args = ["bench", "--seconds", "0.3", "--warm-up", "0.1"];
    Options::parse_from(args).workload
}

/// Returns one image. The test servers ignore its content.
fn images() -> Vec<Image> {
    vec![Image {
        path: "a.jpg".into(),
        bytes: Bytes::from_static(b"a picture"),
        media_type: HeaderValue::from_static("image/jpeg"),
    }]
}

async fn measured(router: Router, pace: Pace) -> LoadFigures {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let workload = workload();
    let subject = Subject::running(&url, &workload, "store=false").unwrap();
    measure(&subject, &images(), &workload, pace, 8)
        .await
        .unwrap()
}

#[tokio::test]
async fn refusals_are_counted_separately_and_batches_come_from_the_metrics() {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let router = Router::new()
        .route(
            "/detect",
            post(move |body: Bytes| async move {
                assert_eq!(body, "a picture");
                tokio::time::sleep(Duration::from_millis(2)).await;
                match counted.fetch_add(1, Ordering::Relaxed) % 2 {
                    0 => StatusCode::OK,
                    _ => StatusCode::TOO_MANY_REQUESTS,
                }
            }),
        )
        .route(
            "/metrics",
            get(move || async move {
                let count = asked.load(Ordering::Relaxed);
                let name = "facescan_batch_rows";
                let label = "operation=\"face_detection\"";
                format!(
                    "{name}_bucket{{{label},le=\"3\"}} {count}\n{name}_sum{{{label}}} {}\n{name}_count{{{label}}} {count}\n",
                    3 * count
                )
            }),
        );
    let figures = measured(router, Pace::Clients(2)).await;
    let totals = &figures.totals;
    assert_eq!(
        totals.counts.answers.keys().collect::<Vec<_>>(),
        [&200, &429]
    );
    assert!((totals.rejected_share() - 0.5).abs() < 0.1, "{totals:?}");
    assert!(totals.latency_ms.unwrap().p50 >= 2.0, "{totals:?}");
    assert_eq!((totals.counts.failed, totals.counts.unanswered), (0, 0));
    let batches = &figures.batches.unwrap()["face_detection"];
    assert_eq!(batches.mean_rows, 3.0);
    assert_eq!(batches.sizes[0].up_to, Some(3.0));
    assert!(figures.server.is_none());
}

#[tokio::test]
async fn a_server_that_closes_every_connection_is_still_measured() {
    let router = Router::new().route(
        "/detect",
        post(|| async { ([(CONNECTION, "close")], "found") }),
    );
    let figures = measured(router, Pace::Clients(2)).await;
    let counts = &figures.totals.counts;
    assert!(counts.requests > 2, "{counts:?}");
    assert_eq!(counts.answers, BTreeMap::from([(200, counts.requests)]));
    assert_eq!(counts.bytes_received, 5 * counts.requests);
    assert!(figures.batches.is_none());
}

/// The server handles one request at a time and takes 50 ms for each. The open loop offers a hundred per second, so the
/// queue grows and each answer is later than the one before. A client that waits for answers would not see this.
#[tokio::test]
async fn an_open_loop_counts_the_waiting_time_of_due_requests() {
    let only = Arc::new(tokio::sync::Mutex::new(()));
    let router = Router::new().route(
        "/detect",
        post(move || async move {
            let _turn = only.lock().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }),
    );
    let figures = measured(router, Pace::Rate(100.0)).await;
    let totals = &figures.totals;
    assert!(totals.counts.requests > 15, "{totals:?}");
    assert!(totals.latency_ms.unwrap().max > 500.0, "{totals:?}");
    assert!(totals.throughput < 25.0, "{totals:?}");
    assert_eq!(totals.lag_ms.unwrap().count, totals.counts.requests);
}
