//! The index that is measured.

use std::{sync::Arc, time::Instant};

use anyhow::Context;
use clap::ValueEnum;
use facescan_config::Config;
use facescan_inference::pool::CpuPool;
#[cfg(feature = "qdrant")]
use facescan_recognition::index::qdrant::QdrantIndex;
use facescan_recognition::index::{
    FaceIndex,
    exact::ExactIndex,
    pgvector::{HnswSettings, PgvectorIndex},
};
use facescan_store::{Graph, Store};
use serde_json::{Value, json};

use super::SearchArgs;

/// The kind of the index.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum IndexName {
    /// A scan of all vectors in memory
    Exact,
    /// An HNSW index of the Postgres database
    Pgvector,
    /// The Qdrant server that `qdrant.url` names
    #[cfg(feature = "qdrant")]
    Qdrant,
}

/// An index that has the faces, and what that took.
pub(super) struct ReadyIndex {
    /// The index, once for each number of candidates.
    pub(super) variants: Vec<Variant>,
    /// The time until the index was ready, and its bytes for each face.
    pub(super) report: Value,
}

impl ReadyIndex {
    /// An index without a number of candidates.
    fn of(index: Arc<dyn FaceIndex>, report: Value) -> Self {
        let variant = Variant {
            index,
            candidates: None,
            must_be_exact: false,
        };
        Self {
            variants: vec![variant],
            report,
        }
    }
}

/// An index with a setting.
pub(super) struct Variant {
    pub(super) index: Arc<dyn FaceIndex>,
    /// The candidates of a search in an HNSW index.
    pub(super) candidates: Option<u32>,
    /// Whether searches compare every face.
    pub(super) must_be_exact: bool,
}

/// Loads or builds an index of all faces.
pub(super) async fn open(
    config: &Config,
    args: &SearchArgs,
    store: &Store,
) -> anyhow::Result<ReadyIndex> {
    match args.index {
        IndexName::Exact => load(config, args, store).await,
        IndexName::Pgvector => build(args, store).await,
        #[cfg(feature = "qdrant")]
        IndexName::Qdrant => fill(config, store).await,
    }
}

/// Writes all faces to a Qdrant server.
#[cfg(feature = "qdrant")]
async fn fill(config: &Config, store: &Store) -> anyhow::Result<ReadyIndex> {
    let collections = store.clone();
    let index = Arc::new(QdrantIndex::new(collections, &config.qdrant)?);
    let started = Instant::now();
    index.load().await?;
    let report = json!({
        "kind": index.kind(),
        "filled_after_seconds": started.elapsed().as_secs_f64(),
    });
    Ok(ReadyIndex::of(index, report))
}

async fn load(config: &Config, args: &SearchArgs, store: &Store) -> anyhow::Result<ReadyIndex> {
    let pool = Arc::new(CpuPool::new(config.imaging.worker_threads())?);
    let index = Arc::new(ExactIndex::new(store.clone(), pool));
    let started = Instant::now();
    index.load().await?;
    let report = json!({
        "kind": index.kind(),
        "ready_after_seconds": started.elapsed().as_secs_f64(),
        "memory_bytes_a_face": index.memory().await as f64 / args.faces as f64,
    });
    Ok(ReadyIndex::of(index, report))
}

async fn build(args: &SearchArgs, store: &Store) -> anyhow::Result<ReadyIndex> {
    let vectors = store.vector_indexes();
    let vectors = vectors.context("--index pgvector needs --database with a Postgres URL")?;
    let graph = Graph {
        links: args.links,
        build_candidates: args.build_candidates,
    };
    let index = |candidates: u32| {
        let settings = HnswSettings {
            min_faces: 1,
            candidates,
            graph,
        };
        let collections = store.clone();
        PgvectorIndex::new(collections, vectors.clone(), settings)
    };
    let builder = index(1);
    let started = Instant::now();
    builder.maintain().await?;
    let built_after = started.elapsed().as_secs_f64();
    let indexes = vectors.vector_indexes().await?;
    let bytes: u64 = indexes.iter().map(|it| it.bytes).sum();
    let report = json!({
        "kind": builder.kind(),
        "links": args.links,
        "build_candidates": args.build_candidates,
        "built_after_seconds": built_after,
        "table_bytes_a_face": vectors.enrollment_bytes().await? as f64 / args.faces as f64,
        "index_bytes_a_face": bytes as f64 / args.faces as f64,
    });
    let variants = args.candidates.iter().map(|candidates| Variant {
        index: Arc::new(index(*candidates)),
        candidates: Some(*candidates),
        must_be_exact: false,
    });
    let exact = args.exact.then(|| Variant {
        index: Arc::new(builder),
        candidates: None,
        must_be_exact: true,
    });
    Ok(ReadyIndex {
        variants: variants.chain(exact).collect(),
        report,
    })
}
