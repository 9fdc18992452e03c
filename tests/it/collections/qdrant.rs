//! The index on a Qdrant server: how it follows the database. `indexes` tests what it proposes.

mod outage;

use facescan_store::IndexRow;
use serde_json::json;
use uuid::Uuid;

use super::{
    ALLOWED, EVERY_THRESHOLD, create, erase, gallery,
    index::{add, collection, nearest, vector},
    ok, story,
};
use crate::support::{
    app::TestApp,
    database::{Database, on_postgres, on_sqlite},
    qdrant::{QdrantServer, on_qdrant},
};

/// Starts an application on a database and a Qdrant server.
async fn start(url: &str, server: &QdrantServer) -> TestApp {
    let mut settings = server.settings();
    settings.extend([("DATABASE_URL", url), ALLOWED, EVERY_THRESHOLD]);
    TestApp::with(&settings).await
}

/// Runs a test on a SQLite file and a Qdrant server.
async fn with_qdrant<F>(test: impl FnOnce(String, QdrantServer) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    on_sqlite(|database: Database| async move {
        on_qdrant(|server| test(database.url(), server)).await;
    })
    .await;
}

async fn refresh(app: &TestApp) {
    app.app.collections.index.refresh().await.unwrap();
}

/// Returns the rows of a collection in the database, in order.
async fn stored_rows(app: &TestApp, uri: &str) -> Vec<u64> {
    let of = collection(app, uri).await;
    let rows = app.app.collections.store.index_rows(of.id, 0, 10_000).await;
    rows.unwrap().iter().map(|row: &IndexRow| row.row).collect()
}

async fn id_of(app: &TestApp, uri: &str) -> Uuid {
    collection(app, uri).await.id
}

/// Checks that the server has the rows and the position of the database, and nothing else.
async fn assert_same(app: &TestApp, server: &QdrantServer, uri: &str) {
    let of = collection(app, uri).await;
    assert_eq!(server.rows(of.id).await, stored_rows(app, uri).await);
    let position = of.position.cast_signed();
    assert_eq!(server.position(of.id).await, Some(position));
}

async fn erase_subjects(app: &TestApp, uri: &str, subjects: &[Uuid]) {
    for subject in subjects {
        let uri = format!("{uri}/subjects/{subject}");
        erase(app, &uri).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_enrolled_found_and_erased_with_qdrant() {
    with_qdrant(|url, server| async move {
        story(&start(&url, &server).await, "qdrant").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_see_each_others_changes() {
    on_postgres(|database: Database| async move {
        on_qdrant(|server| async move {
            let url = database.url();
            let one = start(&url, &server).await;
            let other = start(&url, &server).await;
            let staff = create(&one, gallery("staff")).await;
            let first = add(&one, &staff, 0..50).await;
            assert_eq!(nearest(&other, &staff, 7).await, (Some(first[7]), 50));
            let second = add(&other, &staff, 50..80).await;
            assert_eq!(nearest(&one, &staff, 60).await, (Some(second[10]), 80));
            erase_subjects(&other, &staff, &first[..20]).await;
            // Both apply the same changes at the same time.
            let third = add(&one, &staff, 80..90).await;
            let both =
                futures::future::join(nearest(&one, &staff, 85), nearest(&other, &staff, 85));
            let expected = (Some(third[5]), 70);
            assert_eq!(both.await, (expected, expected));
            assert_eq!(nearest(&one, &staff, 7).await, (None, 70));
            assert_same(&one, &server, &staff).await;
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_process_continues_at_the_stored_position() {
    with_qdrant(|url, server| async move {
        let app = start(&url, &server).await;
        let staff = create(&app, gallery("staff")).await;
        let subjects = add(&app, &staff, 0..10).await;
        assert_eq!(nearest(&app, &staff, 4).await, (Some(subjects[4]), 10));
        let rows = stored_rows(&app, &staff).await;
        drop(app);
        // A process that wrote all rows again would bring it back.
        server.remove(Some(&rows[4..5])).await;
        let app = start(&url, &server).await;
        let more = add(&app, &staff, 10..12).await;
        assert_eq!(nearest(&app, &staff, 11).await, (Some(more[1]), 12));
        assert_eq!(nearest(&app, &staff, 4).await, (None, 12));
        // The first refresh of a process compares the numbers.
        refresh(&app).await;
        assert_eq!(nearest(&app, &staff, 4).await, (Some(subjects[4]), 12));
        assert_same(&app, &server, &staff).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_emptied_is_filled_again() {
    with_qdrant(|url, server| async move {
        let app = start(&url, &server).await;
        let staff = create(&app, gallery("staff")).await;
        let subjects = add(&app, &staff, 0..10).await;
        for is_refreshed in [false, true] {
            assert_eq!(nearest(&app, &staff, 4).await, (Some(subjects[4]), 10));
            server.remove(None).await;
            if is_refreshed {
                refresh(&app).await;
                assert_same(&app, &server, &staff).await;
            }
            assert_eq!(nearest(&app, &staff, 4).await, (Some(subjects[4]), 10));
            server.remove_collections().await;
            if is_refreshed {
                refresh(&app).await;
                assert_same(&app, &server, &staff).await;
            }
        }
        assert_eq!(nearest(&app, &staff, 4).await, (Some(subjects[4]), 10));
        assert_same(&app, &server, &staff).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_far_behind_gets_all_rows_and_loses_the_others() {
    with_qdrant(|url, server| async move {
        let app = start(&url, &server).await;
        let staff = create(&app, gallery("staff")).await;
        let subjects = add(&app, &staff, 0..30).await;
        assert_eq!(nearest(&app, &staff, 3).await, (Some(subjects[3]), 30));
        // The first, the last and others.
        let erased = [0, 7, 8, 29].map(|number| subjects[number]);
        erase_subjects(&app, &staff, &erased).await;
        let of = collection(&app, &staff).await;
        let store = &app.app.collections.store;
        let trimmed = store.trim_index_changes(of.id, of.position);
        trimmed.await.unwrap();
        let more = add(&app, &staff, 30..40).await;
        assert_eq!(nearest(&app, &staff, 33).await, (Some(more[3]), 36));
        assert_eq!(nearest(&app, &staff, 7).await, (None, 36));
        assert_same(&app, &server, &staff).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_faces_and_collections_leave_the_server() {
    with_qdrant(|url, server| async move {
        let app = start(&url, &server).await;
        let (staff, guests) = (
            create(&app, gallery("staff")).await,
            create(&app, gallery("guests")).await,
        );
        let subjects = add(&app, &staff, 0..10).await;
        add(&app, &guests, 0..5).await;
        refresh(&app).await;
        erase_subjects(&app, &staff, &subjects[2..4]).await;
        let id = id_of(&app, &staff).await;
        assert_eq!(server.rows(id).await.len(), 10, "nobody has refreshed it");
        refresh(&app).await;
        assert_eq!(server.rows(id).await.len(), 8);
        assert_same(&app, &server, &staff).await;
        let report = ok(&app, "POST", "/erasures", json!({"collection": id})).await;
        let copies = report["copies"].as_array().unwrap();
        assert!(
            copies.iter().any(|copy| copy["place"] == "index"),
            "{report}"
        );
        refresh(&app).await;
        assert_eq!(
            (server.rows(id).await, server.position(id).await),
            (vec![], None)
        );
        assert_same(&app, &server, &guests).await;
    })
    .await;
}

/// A process wrote rows that another one had removed, and stopped before it compared them with the database.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_came_back_are_removed_by_the_next_process() {
    with_qdrant(|url, server| async move {
        let app = start(&url, &server).await;
        let staff = create(&app, gallery("staff")).await;
        let subjects = add(&app, &staff, 0..10).await;
        let of = collection(&app, &staff).await;
        refresh(&app).await;
        let erased = stored_rows(&app, &staff).await[3];
        erase_subjects(&app, &staff, &subjects[3..4]).await;
        refresh(&app).await;
        let gone = Uuid::now_v7();
        server.put(of.id, erased, vector(3, of.dim as usize)).await;
        server
            .put(gone, 1_000_000, vector(3, of.dim as usize))
            .await;
        drop(app);
        let app = start(&url, &server).await;
        // The database decides, also before they are removed.
        assert_eq!(nearest(&app, &staff, 3).await, (None, 9));
        refresh(&app).await;
        assert_same(&app, &server, &staff).await;
        assert_eq!(
            server.rows(gone).await,
            [0; 0],
            "its collection does not exist"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_ahead_of_a_restored_database_is_filled_again() {
    with_qdrant(|url, server| async move {
        let app = start(&url, &server).await;
        let staff = create(&app, gallery("staff")).await;
        let subjects = add(&app, &staff, 0..10).await;
        refresh(&app).await;
        let of = collection(&app, &staff).await;
        server.set_position(of.id, 1000).await;
        let rows = stored_rows(&app, &staff).await;
        server.remove(Some(&rows[4..5])).await;
        refresh(&app).await;
        assert_same(&app, &server, &staff).await;
        assert_eq!(nearest(&app, &staff, 4).await, (Some(subjects[4]), 10));
    })
    .await;
}
