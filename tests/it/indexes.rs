//! Indexes: one contract that every implementation keeps, and what only pgvector does.
//!
//! Another implementation joins with an [`UnderTest`] and a test that runs [`contract::run`] on it.

mod contract;
mod pgvector;
mod purge;
mod scopes;
mod under_test;

use std::{num::NonZeroUsize, sync::Arc};

use facescan_inference::pool::CpuPool;
#[cfg(feature = "qdrant")]
use facescan_recognition::index::qdrant::QdrantIndex;
use facescan_recognition::index::{
    FaceIndex, IndexState,
    exact::ExactIndex,
    pgvector::{HnswSettings, PgvectorIndex},
};
use facescan_store::Graph;

use crate::support::database::{Database, on_postgres, on_sqlite};
#[cfg(feature = "qdrant")]
use crate::support::{
    app::TestApp,
    qdrant::{QdrantServer, on_qdrant},
};
use under_test::UnderTest;

/// The number of faces from which a collection of a test has an HNSW index.
const MIN_FACES: u64 = 200;

/// The threads that compare vectors in memory.
const THREADS: NonZeroUsize = NonZeroUsize::MIN;

async fn exact(database: &Database) -> UnderTest {
    let store = database.open().await;
    let pool = Arc::new(CpuPool::new(THREADS).unwrap());
    let index = ExactIndex::new(store.clone(), pool);
    UnderTest::new(store, Arc::new(index))
}

/// Returns the index in Postgres without its task in the background, and the same index for its own methods.
async fn pgvector(database: &Database, min_faces: u64) -> (UnderTest, Arc<PgvectorIndex>) {
    database
        .execute("CREATE EXTENSION IF NOT EXISTS vector")
        .await;
    let store = database.open().await;
    let vectors = store.vector_indexes().unwrap();
    let collections = store.clone();
    let settings = HnswSettings {
        min_faces,
        candidates: 100,
        graph: Graph {
            links: 16,
            build_candidates: 64,
        },
    };
    let index = Arc::new(PgvectorIndex::new(collections, vectors, settings));
    let mut under_test = UnderTest::new(store, Arc::clone(&index) as Arc<dyn FaceIndex>);
    under_test.state = match min_faces {
        MIN_FACES => IndexState::Built,
        _ => IndexState::Scanned,
    };
    let built = Arc::clone(&index);
    under_test.settle = Box::new(move || {
        let index = Arc::clone(&built);
        Box::pin(async move { index.maintain().await.unwrap() })
    });
    (under_test, index)
}

#[cfg(feature = "qdrant")]
async fn qdrant(database: &Database, server: &QdrantServer) -> UnderTest {
    let store = database.open().await;
    let (_data, config) = TestApp::configured(&server.settings());
    let index = QdrantIndex::new(store.clone(), &config.qdrant);
    let mut under_test = UnderTest::new(store, Arc::new(index.unwrap()));
    under_test.exact_below = 0;
    under_test.state = IndexState::Built;
    under_test
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_of_indexes_in_memory_over_sqlite() {
    on_sqlite(|database: Database| async move {
        contract::run(&exact(&database).await).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_of_indexes_in_memory_over_postgres() {
    on_postgres(|database: Database| async move {
        contract::run(&exact(&database).await).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_of_indexes_in_postgres_without_hnsw() {
    on_postgres(|database: Database| async move {
        contract::run(&pgvector(&database, u64::MAX).await.0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_of_indexes_in_postgres_with_hnsw() {
    on_postgres(|database: Database| async move {
        let (mut under_test, _) = pgvector(&database, MIN_FACES).await;
        under_test.exact_below = MIN_FACES;
        contract::run(&under_test).await;
    })
    .await;
}

/// Qdrant's own index may leave out similar faces, so no collection counts as exact.
#[cfg(feature = "qdrant")]
#[tokio::test(flavor = "multi_thread")]
async fn the_contract_of_indexes_on_qdrant() {
    on_sqlite(|database: Database| async move {
        on_qdrant(|server| async move {
            let under_test = qdrant(&database, &server).await;
            contract::run(&under_test).await;
        })
        .await;
    })
    .await;
}
