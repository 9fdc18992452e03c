//! Recognition of people.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::path::PathBuf;

use garde::Validate;
use serde::{Deserialize, Serialize};

use super::{is_path, must};

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
    #[garde(skip)]
    pub max_searches_per_day: u32,
    #[garde(skip)]
    pub index: IndexChoice,
    #[garde(range(min = 1, max = 1_000_000_000))]
    pub hnsw_min_faces: u64,
    #[garde(range(min = 10, max = 1000))]
    pub hnsw_candidates: u32,
    #[garde(inner(custom(must(is_path))))]
    pub calibrations: Vec<PathBuf>,
}

/// The index that searches of collections use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexChoice {
    /// [`IndexChoice::Pgvector`] if the database can be it, otherwise [`IndexChoice::Exact`].
    Auto,
    /// A scan of all vectors in memory.
    Exact,
    /// The extension pgvector of Postgres.
    Pgvector,
}
