//! Scans of concurrent calls, which are looked up with one statement and saved in one transaction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use facescan_clock::SystemClock;
use facescan_store::{
    ApiKey, Enrolled, Model, NewScan, Observer, SavedScan, Store, StoreError, StoreMetrics,
    StoreSettings,
};
use futures::future::join_all;
use tokio::sync::Semaphore;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use uuid::Uuid;

use super::fixtures::{face_at, find, new_scan, noon, read_image, with_key};
use super::{batches, collections};
use crate::support::database::{Database, execute, on_postgres, on_sqlite, settings};

// On one thread, the writer begins when every call waits.
#[tokio::test]
async fn concurrent_calls_on_sqlite() {
    on_sqlite(scenario).await;
}

#[tokio::test]
async fn concurrent_calls_on_postgres() {
    on_postgres(scenario).await;
}

/// SQLite has one writer, so no row is locked.
#[tokio::test]
async fn others_do_not_wait_for_an_image_that_is_locked() {
    on_postgres(|database| async move {
        let store = database.open().await;
        let scans: Vec<_> = (0..4).map(|number| with_faces("lock", number)).collect();
        store.save_scan(scans[0].clone()).await.unwrap();
        let mut holder = database.connect().await;
        execute(&mut holder, "BEGIN").await;
        execute(&mut holder, "SELECT id FROM images FOR UPDATE").await;
        let locked = store.save_scan(with_key(&with_faces("lock", 0), 9));
        let mut locked = Box::pin(locked);
        assert!(futures::poll!(&mut locked).is_pending());
        for saved in save_all(&store, &scans[1..]).await {
            saved.unwrap();
        }
        assert!(futures::poll!(&mut locked).is_pending());
        execute(&mut holder, "ROLLBACK").await;
        assert_eq!(locked.await.unwrap().image_id(), scans[0].image.id);
    })
    .await;
}

/// SQLite runs the statements on a thread of its own, where the test does not see them. They are the same.
#[tokio::test]
async fn a_transaction_has_few_statements() {
    on_postgres(|database| async move {
        // A connection has statements of its own when it is opened.
        let settings = StoreSettings {
            max_connections: 1,
            ..settings(&database.url())
        };
        let store = Store::open(&settings, Observer::default()).await.unwrap();
        store.migrate().await.unwrap();
        let statements = Statements::default();
        // While there is only one subscriber, tracing asks that of the thread which comes to an event first, and threads of other
        // tests have none.
        let _second = tracing::Dispatch::new(tracing_subscriber::registry());
        let subscriber = tracing_subscriber::registry().with(statements.clone());
        let _counted = tracing::subscriber::set_default(subscriber);
        count_those_of_requests(&store, &statements).await;
        count_those_of_a_chunk(&store, &statements).await;
        count_those_of_an_enrollment(&store, &statements).await;
    })
    .await;
}

async fn count_those_of_requests(store: &Store, statements: &Statements) {
    let scans = (0..16).map(|number| with_key(&with_faces("few", number), 8));
    let scans: Vec<_> = scans.collect();
    statements.take();
    let found = join_all(scans.iter().map(|scan| find(store, scan))).await;
    assert!(found.iter().all(Option::is_none));
    assert_eq!(statements.take(), 1, "of the look-ups");
    for saved in save_all(store, &scans).await {
        saved.unwrap();
    }
    assert_eq!(statements.take(), 1, "of new images");
    let others = (0..16).map(|number| with_key(&with_faces("few", number), 9));
    let others: Vec<_> = others.collect();
    for saved in save_all(store, &others).await {
        saved.unwrap();
    }
    // Nothing is new, and then the begin, the version of the tables, the limit of waits, images, sources, stored scans, and the new
    // scans, faces and vectors.
    assert_eq!(statements.take(), 10);
}

async fn count_those_of_a_chunk(store: &Store, statements: &Statements) {
    batches::submit(store, batches::new_batch("chunk", 64), 64).await;
    let chunk = batches::claim(store, noon()).await.unwrap();
    let outcomes: Vec<_> = (0..64)
        .map(|number| batches::scanned(number.into(), with_faces("chunk", number)))
        .collect();
    statements.take();
    let finished = store.finish_items(&chunk.lease, &outcomes, batches::end());
    assert_eq!(finished.await.unwrap().unwrap().finished, 64);
    // Those of the scans, whose faces take two, and those of the items, the chunk and the batch.
    assert_eq!(statements.take(), 17);
}

async fn count_those_of_an_enrollment(store: &Store, statements: &Statements) {
    let gallery = collections::collection("enroll", "gallery");
    collections::created(store, &gallery).await;
    let subject = collections::added(store, &gallery).await;
    let scans: Vec<_> = (0..32).map(|number| with_faces("enroll", number)).collect();
    for saved in save_all(store, &scans).await {
        saved.unwrap();
    }
    let stored = scans.iter().flat_map(|scan| &scan.faces);
    let faces: Vec<_> = stored
        .map(|face| collections::stored_face(face.id))
        .collect();
    statements.take();
    let enrolled = collections::enroll(store, &gallery, &subject, &faces).await;
    assert_eq!(enrolled, Enrolled::Done);
    // The begin, the version of the tables, the collection, two of the subject, the stored faces, the new faces and the subject.
    assert_eq!(statements.take(), 8);
}

/// Counts the statements that the driver runs.
#[derive(Clone, Default)]
struct Statements(Arc<AtomicUsize>);

impl Statements {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl<S: Subscriber> Layer<S> for Statements {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let is_statement = event.metadata().target() == "sqlx::query";
        self.0
            .fetch_add(usize::from(is_statement), Ordering::Relaxed);
    }
}

async fn scenario(database: Database) {
    let calls = Arc::new(Calls::default());
    let observer = Observer::new(Arc::new(SystemClock::start()), calls.clone());
    let store = Store::open(&settings(&database.url()), observer).await;
    let store = store.unwrap();
    store.migrate().await.unwrap();
    save_in_one_transaction(&store, &calls).await;
    save_scans_of_one_image(&store, &calls).await;
    save_the_others_when_one_cannot_be_stored(&store, &calls).await;
    leave_out_a_call_that_was_dropped(&store).await;
    look_up_together(&store, &calls).await;
    calls.transactions();
    wait_for_a_turn(&store, &calls).await;
    store.close().await;
}

async fn save_in_one_transaction(store: &Store, calls: &Calls) {
    let scans: Vec<_> = (0..30).map(|number| with_faces("many", number)).collect();
    for (saved, scan) in save_all(store, &scans).await.into_iter().zip(&scans) {
        let image_id = scan.image.id;
        assert_eq!(saved.unwrap(), SavedScan::Written { image_id });
    }
    assert_eq!(calls.transactions(), [("save_new_scans", "ok")]);
    for scan in &scans {
        let stored = find(store, scan).await.unwrap();
        assert_eq!((stored.id, &stored.record), (scan.id, &scan.record));
        let ids = stored.faces.iter().map(|face| face.id);
        assert!(ids.eq(scan.faces.iter().map(|face| face.id)));
        let image = read_image(store, "many", scan.image.id).await.unwrap();
        assert_eq!(image.sources, [scan.source.clone().unwrap()]);
    }
    calls.transactions();
}

async fn save_scans_of_one_image(store: &Store, calls: &Calls) {
    let first = with_faces("same", 1);
    let same_key = NewScan {
        id: Uuid::now_v7(),
        ..with_faces("same", 1)
    };
    let mut other_key = with_key(&with_faces("same", 1), 9);
    other_key.image.id = Uuid::now_v7();
    let other_tenant = with_faces("other", 1);
    let scans = [first, same_key, other_key, other_tenant];
    let saved = save_all(store, &scans).await;
    let expected = [("save_new_scans", "ok"), ("save_scans", "ok")];
    assert_eq!(calls.transactions(), expected);
    let [first, same_key, other_key, other_tenant] = &scans;
    let image_id = first.image.id;
    let stored = find(store, first).await.unwrap();
    assert_eq!((stored.id, stored.faces.len()), (first.id, 2));
    let expected = [
        SavedScan::Written { image_id },
        SavedScan::Kept(Box::new(stored)),
        SavedScan::Written { image_id },
        SavedScan::Written {
            image_id: other_tenant.image.id,
        },
    ];
    let saved: Vec<_> = saved.into_iter().map(Result::unwrap).collect();
    assert_eq!(saved, expected);
    assert_ne!(first.image.id, same_key.image.id);
    assert_eq!(find(store, other_key).await.unwrap().id, other_key.id);
    calls.transactions();
}

async fn save_the_others_when_one_cannot_be_stored(store: &Store, calls: &Calls) {
    let mut scans: Vec<_> = (0..4).map(|number| with_faces("one", number)).collect();
    let twice = scans[2].faces[0].clone();
    scans[2].faces.push(twice);
    let saved = save_all(store, &scans).await;
    let transactions = calls.transactions();
    assert_eq!(transactions[0], ("save_new_scans", "error"));
    let alone = |outcome| {
        let is_alone = |call: &&(_, _)| **call == ("save_one_scan", outcome);
        transactions.iter().filter(is_alone).count()
    };
    assert_eq!((alone("ok"), alone("error")), (3, 1));
    for (place, (saved, scan)) in saved.into_iter().zip(&scans).enumerate() {
        let is_stored = find(store, scan).await.is_some();
        match saved {
            Ok(_) => assert!(is_stored && place != 2),
            Err(error) => {
                assert!(matches!(error, StoreError::Refused(_)), "{error}");
                assert!(!is_stored && place == 2);
            }
        }
    }
}

async fn look_up_together(store: &Store, calls: &Calls) {
    let scans = (0..6).map(|number| with_key(&with_faces("look", number), 8));
    let scans: Vec<_> = scans.collect();
    let other_tenant = with_key(&with_faces("elsewhere", 0), 8);
    for scan in [&scans[1], &scans[4]] {
        store.save_scan(scan.clone()).await.unwrap();
    }
    calls.of(&["cached_scan_ids"]);
    let of_both = scans.iter().chain([&other_tenant]);
    let found = join_all(of_both.map(|scan| find(store, scan))).await;
    let ids: Vec<_> = found.iter().flatten().map(|scan| scan.id).collect();
    assert_eq!(ids, [scans[1].id, scans[4].id]);
    assert_eq!(
        calls.of(&["cached_scan_ids"]).len(),
        2,
        "one of each tenant"
    );
}

/// The calls that come while the store waits for its turn are saved together.
async fn wait_for_a_turn(store: &Store, calls: &Calls) {
    let turns = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&turns);
    let store = store.clone().with_turns(move || {
        let turns = Arc::clone(&waiting);
        Box::pin(async move { turns.acquire().await.unwrap().forget() })
    });
    let scans: Vec<_> = (0..3).map(|number| with_faces("turn", number)).collect();
    let mut saving: Vec<_> = scans
        .iter()
        .map(|scan| Box::pin(store.save_scan(scan.clone())))
        .collect();
    for call in &mut saving {
        assert!(futures::poll!(call).is_pending());
        tokio::task::yield_now().await;
    }
    turns.add_permits(1);
    for saved in join_all(saving).await {
        saved.unwrap();
    }
    assert_eq!(calls.transactions(), [("save_new_scans", "ok")]);
}

async fn leave_out_a_call_that_was_dropped(store: &Store) {
    let [stays, goes] = [1, 2].map(|number| with_faces("dropped", number));
    let mut staying = Box::pin(store.save_scan(stays.clone()));
    let mut going = Box::pin(store.save_scan(goes.clone()));
    assert!(futures::poll!(&mut staying).is_pending());
    assert!(futures::poll!(&mut going).is_pending());
    drop(going);
    staying.await.unwrap();
    assert_eq!(find(store, &stays).await.unwrap().id, stays.id);
    assert_eq!(find(store, &goes).await, None);
}

async fn save_all(store: &Store, scans: &[NewScan]) -> Vec<Result<SavedScan, StoreError>> {
    join_all(scans.iter().map(|scan| store.save_scan(scan.clone()))).await
}

fn with_faces(tenant: &str, number: u8) -> NewScan {
    let mut scan = new_scan(tenant, number);
    scan.faces = vec![face_at(10.0), face_at(200.0)];
    scan
}

/// The calls of a store and their outcomes.
#[derive(Default)]
struct Calls(Mutex<Vec<(&'static str, &'static str)>>);

impl Calls {
    /// Returns the transactions that saved scans since the last time.
    fn transactions(&self) -> Vec<(&'static str, &'static str)> {
        self.of(&["save_new_scans", "save_scans", "save_one_scan"])
    }

    /// Returns the calls with these names since the last time, and forgets the others.
    fn of(&self, names: &[&str]) -> Vec<(&'static str, &'static str)> {
        let mut calls = std::mem::take(&mut *self.0.lock().unwrap());
        calls.retain(|(call, _)| names.contains(call));
        calls
    }
}

impl StoreMetrics for Calls {
    fn called(&self, call: &'static str, outcome: &'static str, _: Duration) {
        self.0.lock().unwrap().push((call, outcome));
    }
}

#[tokio::test]
async fn a_write_that_is_tried_changes_nothing() {
    let test = async |database: Database| {
        let store = database.open().await;
        let model = Model {
            id: "m".to_owned(),
            role: "detector".to_owned(),
            family: "yunet".to_owned(),
            sha256: [1; 32],
            vector_space: None,
            dim: None,
        };
        store.register_models(&[model], noon()).await.unwrap();
        let before = database.dump().await;
        store.try_write().await.unwrap();
        store.check_writes().await.unwrap();
        assert_eq!(database.dump().await, before);
    };
    on_sqlite(test).await;
    on_postgres(test).await;
}

#[tokio::test]
async fn two_servers_that_start_at_once_make_one_first_key() {
    let test = async |database: Database| {
        let store = database.open().await;
        let key = |digit: &str| ApiKey {
            id: digit.repeat(16),
            tenant: "default".to_owned(),
            name: "first key".to_owned(),
            scopes: vec!["admin".to_owned()],
            digest: [1; 32],
            created_at: noon(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        let (one, other) = (key("1"), key("2"));
        let made = tokio::join!(
            store.add_first_key(&one, None),
            store.add_first_key(&other, None)
        );
        assert_ne!(made.0.unwrap(), made.1.unwrap());
        assert_eq!(store.list_keys("default").await.unwrap().len(), 1);
    };
    on_sqlite(test).await;
    on_postgres(test).await;
}
