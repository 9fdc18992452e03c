//! Chooses the index of enrolled faces.

use std::sync::Arc;

use anyhow::{Context, bail};
use facescan_config::{Config, IndexKind};
use facescan_inference::pool::CpuPool;
use facescan_recognition::index::{
    FaceIndex,
    exact::ExactIndex,
    pgvector::{HnswSettings, PgvectorIndex},
};
use facescan_store::{Graph, Store, VectorIndexes};

#[cfg(feature = "qdrant")]
use facescan_recognition::index::qdrant::QdrantIndex;

/// The oldest version of pgvector whose indexes survive VACUUM, on which erasures depend.
const MIN_VERSION: [u32; 3] = [0, 8, 4];

/// Opens the index that the settings name.
///
/// # Errors
/// Returns an error if the settings name pgvector and the database does not have it, or Qdrant and the binary does not have its
/// client.
pub async fn open(
    config: &Config,
    store: &Store,
    pool: &Arc<CpuPool>,
) -> anyhow::Result<Arc<dyn FaceIndex>> {
    let collections = store.clone();
    let vectors = match config.recognition.index {
        IndexKind::Exact => {
            return Ok(Arc::new(ExactIndex::new(collections, Arc::clone(pool))));
        }
        IndexKind::Qdrant => return qdrant(config, store),
        IndexKind::Pgvector => required(store).await?,
    };
    let settings = HnswSettings {
        min_faces: config.recognition.hnsw_min_faces,
        candidates: config.recognition.hnsw_candidates,
        graph: Graph {
            links: config.recognition.hnsw_links,
            build_candidates: config.recognition.hnsw_build_candidates,
        },
    };
    Ok(Arc::new(PgvectorIndex::new(collections, vectors, settings)))
}

#[cfg(feature = "qdrant")]
fn qdrant(config: &Config, store: &Store) -> anyhow::Result<Arc<dyn FaceIndex>> {
    let index = QdrantIndex::new(store.clone(), &config.qdrant);
    Ok(Arc::new(index.context("setting up the index on Qdrant")?))
}

#[cfg(not(feature = "qdrant"))]
fn qdrant(_: &Config, _: &Store) -> anyhow::Result<Arc<dyn FaceIndex>> {
    bail!(
        "recognition.index is qdrant, but this binary was built without the feature qdrant; build with --features qdrant"
    )
}

/// Returns the part of the store that searches by pgvector.
async fn required(store: &Store) -> anyhow::Result<VectorIndexes> {
    let Some(vectors) = store.vector_indexes() else {
        bail!(
            "recognition.index is pgvector, but the database is SQLite; set database.url to a Postgres server, or \
             recognition.index to exact"
        );
    };
    match vectors.vector_extension().await {
        Ok(Some(version)) if is_supported(&version) => {}
        Ok(Some(version)) => bail!("recognition.index is pgvector, but {}", too_old(&version)),
        Ok(None) => bail!(
            "recognition.index is pgvector, but the database has no extension `vector`; install pgvector 0.8.4 or newer, and \
             run `CREATE EXTENSION vector` in the database as a user who may, or set recognition.index to exact"
        ),
        Err(error) if error.is_unavailable() => {
            tracing::warn!(%error, "it is not known whether the database has pgvector");
        }
        Err(error) => return Err(error).context("looking for pgvector in the database"),
    }
    Ok(vectors)
}

fn too_old(version: &str) -> String {
    format!(
        "the extension `vector` of the database has version {version}, which can lose rows; install pgvector 0.8.4 or newer, \
         and run `ALTER EXTENSION vector UPDATE` in the database"
    )
}

fn is_supported(version: &str) -> bool {
    let parts = version.split('.').map(str::parse);
    let parts: Result<Vec<u32>, _> = parts.collect();
    parts.is_ok_and(|parts| parts.as_slice() >= MIN_VERSION.as_slice())
}

#[cfg(test)]
mod tests {
    use super::is_supported;

    #[test]
    fn versions_are_compared_by_number() {
        for version in ["0.8.4", "0.8.10", "0.9", "1.0.0"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["0.8.3", "0.7.10", "0.8", "", "next"] {
            assert!(!is_supported(version), "{version}");
        }
    }
}
