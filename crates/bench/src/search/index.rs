//! The index that is measured.

use std::{sync::Arc, time::Instant};

use anyhow::Context;
use clap::ValueEnum;
use facescan::recognition::index::{FaceIndex, exact::ExactIndex, pgvector::PgvectorIndex};
use facescan_inference::pool::CpuPool;
use facescan_store::Stores;
use serde_json::{Value, json};

/// The kind of the index.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum IndexName {
    /// A scan of all vectors in memory
    Exact,
    /// An HNSW index of the Postgres database
    Pgvector,
}

/// An index that has the faces, and what that took.
pub(super) struct ReadyIndex {
    pub(super) index: Arc<dyn FaceIndex>,
    /// The time until the index was ready, and its bytes for each face.
    pub(super) report: Value,
}

/// Loads or builds an index of all faces.
pub(super) async fn open(
    name: IndexName,
    stores: &Stores,
    pool: Arc<CpuPool>,
    faces: usize,
) -> anyhow::Result<ReadyIndex> {
    match name {
        IndexName::Exact => load(stores, pool, faces).await,
        IndexName::Pgvector => build(stores, faces).await,
    }
}

async fn load(stores: &Stores, pool: Arc<CpuPool>, faces: usize) -> anyhow::Result<ReadyIndex> {
    let index = Arc::new(ExactIndex::new(Arc::clone(&stores.collections), pool));
    let started = Instant::now();
    index.load().await?;
    let report = json!({
        "kind": index.kind(),
        "ready_after_seconds": started.elapsed().as_secs_f64(),
        "memory_bytes_a_face": index.memory().await as f64 / faces as f64,
    });
    Ok(ReadyIndex { index, report })
}

async fn build(stores: &Stores, faces: usize) -> anyhow::Result<ReadyIndex> {
    let vectors = stores.vector_indexes.as_ref();
    let vectors = vectors.context("--index pgvector needs --database with a Postgres URL")?;
    let collections = Arc::clone(&stores.collections);
    let index = PgvectorIndex::new(collections, Arc::clone(vectors), 1);
    let started = Instant::now();
    index.maintain().await?;
    let built_after = started.elapsed().as_secs_f64();
    let bytes: u64 = vectors
        .vector_indexes()
        .await?
        .iter()
        .map(|it| it.bytes)
        .sum();
    let report = json!({
        "kind": index.kind(),
        "built_after_seconds": built_after,
        "table_bytes_a_face": vectors.enrolment_bytes().await? as f64 / faces as f64,
        "index_bytes_a_face": bytes as f64 / faces as f64,
    });
    Ok(ReadyIndex {
        index: Arc::new(index),
        report,
    })
}
