//! When indexes in Postgres are built and dropped, and when a server uses them.

use facescan_recognition::index::{FaceIndex, IndexKind};
use facescan_store::VectorIndex;
use uuid::Uuid;

use super::{
    MIN_FACES, pgvector,
    under_test::{Gallery, UnderTest},
};
use crate::support::{
    app::TestApp,
    database::{Database, execute, on_postgres, on_sqlite},
};

async fn indexes(under_test: &UnderTest) -> Vec<VectorIndex> {
    let vectors = under_test.store.vector_indexes().unwrap();
    vectors.vector_indexes().await.unwrap()
}

/// Returns the collections with an index, and whether each index is complete.
async fn built(under_test: &UnderTest) -> Vec<(Uuid, bool)> {
    let indexes = indexes(under_test).await;
    indexes
        .iter()
        .map(|it| (it.collection, it.is_built))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn large_collections_have_an_index() {
    on_postgres(|database: Database| async move {
        let (under_test, index) = pgvector(&database, MIN_FACES).await;
        let mut gallery = Gallery::create(&under_test, "gallery", 1).await;
        let mut small = Gallery::create(&under_test, "small", 2).await;
        gallery.enroll(40).await;
        small.enroll(30).await;
        index.maintain().await.unwrap();
        assert_eq!(built(&under_test).await, [(gallery.id, true)]);
        assert!(indexes(&under_test).await[0].bytes > 0);

        // Postgres marks an index like this if it stops while it builds it.
        let damage = "UPDATE pg_index SET indisvalid = false \
             WHERE indexrelid IN (SELECT oid FROM pg_class WHERE relname LIKE 'enrollments_hnsw%')";
        database.execute(damage).await;
        assert_eq!(built(&under_test).await, [(gallery.id, false)]);
        let query = gallery.mate();
        assert!(gallery.search(&query, 10).await.is_exact);
        index.maintain().await.unwrap();
        assert_eq!(built(&under_test).await, [(gallery.id, true)]);
        assert!(!gallery.search(&query, 10).await.is_exact);

        // Below the limit, faces are compared one by one, and the index stays until half of them are gone.
        for _ in 0..20 {
            gallery.erase(gallery.faces[0].subject).await;
        }
        index.maintain().await.unwrap();
        assert_eq!(built(&under_test).await, [(gallery.id, true)]);
        assert!(gallery.search(&query, 10).await.is_exact);
        gallery.erase(gallery.faces[0].subject).await;
        index.maintain().await.unwrap();
        assert_eq!(built(&under_test).await, []);
        assert!(gallery.search(&query, 10).await.is_exact);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_dropped_with_its_collection() {
    on_postgres(|database: Database| async move {
        let (under_test, index) = pgvector(&database, 10).await;
        let mut gallery = Gallery::create(&under_test, "gallery", 1).await;
        gallery.enroll(4).await;
        index.maintain().await.unwrap();
        assert_eq!(built(&under_test).await, [(gallery.id, true)]);
        gallery.erase_all().await;
        index.maintain().await.unwrap();
        assert_eq!(built(&under_test).await, []);
    })
    .await;
}

/// Another process that builds an index has the lock.
#[tokio::test(flavor = "multi_thread")]
async fn one_process_builds_indexes() {
    on_postgres(|database: Database| async move {
        let (under_test, index) = pgvector(&database, 10).await;
        let mut gallery = Gallery::create(&under_test, "gallery", 1).await;
        gallery.enroll(4).await;
        let mut other = database.connect().await;
        let lock = "SELECT pg_advisory_lock(7180369124405)";
        execute(&mut other, lock).await;
        index.maintain().await.unwrap();
        assert_eq!(built(&under_test).await, []);
        let query = gallery.mate();
        assert!(gallery.search(&query, 10).await.is_exact);
        let unlock = "SELECT pg_advisory_unlock(7180369124405)";
        execute(&mut other, unlock).await;
        index.maintain().await.unwrap();
        assert_eq!(built(&under_test).await, [(gallery.id, true)]);
    })
    .await;
}

/// The sweep does not wait for the index, and reports what failed at its next time.
#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_built_in_the_background() {
    on_postgres(|database: Database| async move {
        let (under_test, index) = pgvector(&database, 10).await;
        let mut gallery = Gallery::create(&under_test, "gallery", 1).await;
        gallery.enroll(4).await;
        index.refresh().await.unwrap();
        while built(&under_test).await != [(gallery.id, true)] {
            index.refresh().await.unwrap();
        }
        database
            .execute("ALTER TABLE enrollments RENAME TO moved")
            .await;
        while index.refresh().await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn kind(database: &Database, choice: &str) -> Result<IndexKind, String> {
    let url = database.url();
    let settings = [
        ("DATABASE_URL", url.as_str()),
        ("FACESCAN__RECOGNITION__INDEX", choice),
    ];
    let (_data, config) = TestApp::configured(&settings);
    match TestApp::try_start(config).await {
        Ok(app) => Ok(app.collections.index.kind()),
        Err(error) => Err(format!("{error:#}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_needs_the_extension_for_pgvector() {
    on_postgres(|database: Database| async move {
        let refused = kind(&database, "pgvector").await.unwrap_err();
        assert!(refused.contains("CREATE EXTENSION vector"), "{refused}");
        database.execute("CREATE EXTENSION vector").await;
        assert_eq!(kind(&database, "pgvector").await, Ok(IndexKind::Pgvector));
        assert_eq!(kind(&database, "exact").await, Ok(IndexKind::Exact));
        database
            .execute("UPDATE pg_extension SET extversion = '0.8.3' WHERE extname = 'vector'")
            .await;
        let refused = kind(&database, "pgvector").await.unwrap_err();
        assert!(refused.contains("0.8.4 or newer"), "{refused}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_has_no_pgvector() {
    on_sqlite(|database: Database| async move {
        assert_eq!(kind(&database, "exact").await, Ok(IndexKind::Exact));
        let refused = kind(&database, "pgvector").await.unwrap_err();
        assert!(refused.contains("SQLite"), "{refused}");
    })
    .await;
}
