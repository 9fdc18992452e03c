//! Recognition of people.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::path::PathBuf;

use garde::Validate;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use super::{
    checks::{is_path, must},
    masks::{hidden, masked_url},
    milliseconds::Milliseconds,
    traces::is_header,
    urls::is_http,
};

/// Section `recognition`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Recognition {
    #[garde(custom(must(|far: &f64| *far > 0.0 && *far <= 1.0)))]
    pub verify_far: f64,
    #[garde(inner(length(bytes, min = 1, max = 200)))]
    pub purposes: Vec<String>,
    #[garde(range(min = 1, max = 36_500))]
    pub max_retention_days: u32,
    #[garde(custom(must(|far: &f64| *far > 0.0 && *far <= 1.0)))]
    pub search_far: f64,
    #[garde(custom(must(|far: &f64| *far > 0.0 && *far <= 1.0)))]
    pub max_search_far: f64,
    #[garde(skip)]
    pub max_searches_per_day: u32,
    #[garde(skip)]
    pub index: IndexKind,
    #[garde(range(min = 1, max = 1_000_000_000))]
    pub hnsw_min_faces: u64,
    #[garde(range(min = 10, max = 1000))]
    pub hnsw_candidates: u32,
    #[garde(range(min = 2, max = 100))]
    pub hnsw_links: u32,
    #[garde(range(min = 4, max = 1000))]
    pub hnsw_build_candidates: u32,
    #[garde(inner(custom(must(is_path))))]
    pub calibrations: Vec<PathBuf>,
}

/// Section `qdrant`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct QdrantServer {
    #[garde(inner(custom(must(is_http))))]
    #[serde(serialize_with = "masked_url")]
    pub url: Option<Url>,
    #[garde(inner(custom(must(is_header))))]
    #[serde(serialize_with = "hidden")]
    pub api_key: Option<SecretString>,
    #[garde(custom(must(|text: &String| is_prefix(text))))]
    pub prefix: String,
    #[garde(range(min = 1, max = 600_000))]
    pub timeout_ms: Milliseconds,
}

fn is_prefix(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// The kind of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// A scan of all rows in memory.
    Exact,
    /// The extension pgvector of the database: a scan of all rows, or an HNSW index of a large collection.
    Pgvector,
    /// An approximate search on a Qdrant server.
    Qdrant,
}
