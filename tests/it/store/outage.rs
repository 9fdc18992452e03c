//! Databases that are unreachable, damaged or misconfigured.

use std::error::Error;
use std::time::Duration;

use facescan_store::{Observer, Store, StoreError, StoreSettings};
use futures::FutureExt;
use sqlx::ConnectOptions;

use super::fixtures::{find, new_scan, with_key};
use crate::support::chaos_proxy::ChaosProxy;
use crate::support::database::{Database, execute, on_postgres, settings, store_at};

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_database_is_unavailable_until_it_returns() {
    on_postgres(|database| async move {
        let mut proxy = ChaosProxy::start(database.address()).await;
        proxy.cut().await;
        // The database is unreachable at the start. Opening succeeds, and the tables are created later.
        let store = store_at(&database.url_through(proxy.address())).await;
        assert_unavailable(store.migrate().await);
        proxy.restore();
        // The database is reachable, but has no tables yet.
        let scan = new_scan("away", 1);
        let error = store.save_scan(scan.clone()).await.unwrap_err();
        assert!(matches!(error, StoreError::NotMigrated(_)), "{error}");
        assert!(error.is_unavailable());
        store.migrate().await.unwrap();
        store.save_scan(scan.clone()).await.unwrap();

        proxy.cut().await;
        assert_unavailable(store.ping().await);
        assert_unavailable(store.save_scan(new_scan("away", 2)).await);
        assert_unavailable(
            store
                .find_scan("away", &scan.image.sha256, &scan.record.scan_key)
                .await,
        );
        proxy.restore();
        store.ping().await.unwrap();
        assert_eq!(find(&store, &scan).await.unwrap().id, scan.id);

        // Cut the connection while a save waits for a lock on the image, which `holder` has.
        let mut holder = database.connect().await;
        execute(&mut holder, "BEGIN").await;
        execute(&mut holder, "SELECT id FROM images FOR UPDATE").await;
        let half = with_key(&scan, 9);
        let saving = tokio::spawn({
            let (store, half) = (store.clone(), half.clone());
            async move { store.save_scan(half).await }
        });
        let waiting = "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while database.count(waiting).await == 0 {
            assert!(!saving.is_finished(), "the save did not wait for the lock");
        }
        proxy.cut().await;
        assert_unavailable(saving.await.unwrap());
        execute(&mut holder, "ROLLBACK").await;
        proxy.restore();
        assert_eq!(find(&store, &half).await, None);
        // The aborted save left no lock, so the same call now succeeds.
        store.save_scan(half.clone()).await.unwrap();
        assert_eq!(find(&store, &half).await.unwrap().id, half.id);
    })
    .await;
}

/// Each call ends after its time limit and closes its connection, so the calls after it do not wait for a free one.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_is_silent_blocks_no_connection() {
    on_postgres(|database| async move {
        let proxy = ChaosProxy::start(database.address()).await;
        let settings = StoreSettings {
            max_connections: 1,
            call_timeout: Duration::from_millis(300),
            ..settings(&database.url_through(proxy.address()))
        };
        let store = Store::open(&settings, Observer::default()).await.unwrap();
        store.migrate().await.unwrap();
        for _ in 0..2 {
            proxy.freeze();
            assert_unavailable(store.ping().await);
            assert_unavailable(store.save_scan(new_scan("silent", 1)).await);
            proxy.restore();
            store.ping().await.unwrap();
        }
        // A request that goes away ends its call at any point.
        proxy.freeze();
        assert!(store.ping().now_or_never().is_none());
        proxy.restore();
        store.save_scan(new_scan("silent", 1)).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_reaches_other_processes() {
    on_postgres(|database| async move {
        let open = || async { store_at(&database.url()).await.notifications().unwrap() };
        let (first, second) = (open().await, open().await);
        let notified = async {
            // The second process begins to listen at an unknown time.
            let notifying = async {
                loop {
                    first.notify().await.unwrap();
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                result = second.wait() => result,
                () = notifying => unreachable!(),
            }
        };
        notified.await.unwrap();
    })
    .await;
}

fn assert_unavailable<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(
        matches!(result, Err(StoreError::Unavailable(_))),
        "{result:?}"
    );
}

#[tokio::test]
async fn no_error_message_contains_the_password() {
    let fast = |url: &str| StoreSettings {
        acquire_timeout: Duration::from_millis(100),
        ..settings(url)
    };
    for url in ["mysql://u:hunter2@db/x", "hunter2"] {
        let error = Store::open(&fast(url), Observer::default())
            .await
            .err()
            .unwrap();
        assert!(matches!(error, StoreError::Invalid(_)), "{error}");
        assert_contains_no_password(&error);
    }
    for url in [
        "postgres://u:hunter2@db:port/x",
        "postgres://u:hunter2@db/x?sslmode=sometimes",
        "postgres://u:hunter2%ff@db/x",
        "sqlite://file?password=hunter2",
    ] {
        let error = Store::open(&fast(url), Observer::default())
            .await
            .err()
            .unwrap();
        assert!(matches!(error, StoreError::Url(_)), "{url}: {error}");
        assert!(error.source().is_some(), "{url}");
        assert_contains_no_password(&error);
    }
    // No server listens on port 1.
    let settings = fast("postgres://u:hunter2@127.0.0.1:1/x");
    let store = Store::open(&settings, Observer::default()).await.unwrap();
    let error = store.ping().await.unwrap_err();
    assert!(error.is_unavailable());
    assert_contains_no_password(&error);
    assert!(!format!("{settings:?}").contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_error_of_the_database_server_contains_the_password() {
    on_postgres(|database| async move {
        let Database::Postgres { options } = &database else {
            unreachable!()
        };
        let missing = options
            .as_ref()
            .clone()
            .password("hunter2")
            .database("missing");
        let store = store_at(missing.to_url_lossy().as_str()).await;
        let error = store.ping().await.unwrap_err();
        assert!(
            error.is_unavailable() && error.source().is_some(),
            "{error:?}"
        );
        assert_contains_no_password(&error);
    })
    .await;
}

/// Checks the display and debug texts of an error and of all its sources.
fn assert_contains_no_password(error: &StoreError) {
    let mut next: Option<&dyn Error> = Some(error);
    while let Some(error) = next {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2"), "{text}");
        next = error.source();
    }
}

#[tokio::test]
async fn an_in_memory_database_lives_as_long_as_its_store() {
    let store = store_at("sqlite::memory:").await;
    store.migrate().await.unwrap();
    let scan = new_scan("memory", 1);
    store.save_scan(scan.clone()).await.unwrap();
    assert_eq!(find(&store, &scan).await.unwrap().id, scan.id);
    let other = store_at("sqlite::memory:").await;
    other.migrate().await.unwrap();
    assert_eq!(find(&other, &scan).await, None);
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_reported_as_corrupt() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("notes.txt");
    std::fs::write(&file, "not a database, but as long as one. ".repeat(100)).unwrap();
    let store = store_at(&format!("sqlite://{}", file.display())).await;
    let error = store.migrate().await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    // A file cannot be the parent directory of a database.
    let below = format!("sqlite://{}/below/facescan.sqlite?mode=rwc", file.display());
    let error = Store::open(&settings(&below), Observer::default())
        .await
        .err()
        .unwrap();
    assert!(matches!(error, StoreError::Directory { .. }), "{error}");
}
