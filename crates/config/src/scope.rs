//! What a caller may do.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A group of routes that a key opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Scope {
    /// Process images.
    Infer,
    /// Read stored results, and the state of models and devices.
    Read,
    /// Erase stored results.
    Erase,
    /// Submit batches, and read, change and delete them. Manage webhooks.
    Batch,
    /// Manage collections and their subjects, and enroll faces.
    Enroll,
    /// Search in collections of faces.
    Search,
    /// Compare vectors and aligned crops of the caller with enrolled faces. It can read enrolled vectors.
    SearchVectors,
    /// Read the metrics of the server, which are those of all tenants.
    Metrics,
    /// Manage keys.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 9] = [
        Self::Infer,
        Self::Read,
        Self::Erase,
        Self::Batch,
        Self::Enroll,
        Self::Search,
        Self::SearchVectors,
        Self::Metrics,
        Self::Admin,
    ];

    /// Returns the name in keys, tokens and errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Infer => "infer",
            Self::Read => "read",
            Self::Erase => "erase",
            Self::Batch => "batch",
            Self::Enroll => "enroll",
            Self::Search => "search",
            Self::SearchVectors => "search_vectors",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }

    /// Returns the scope with a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Returns the scopes with these names. Unknown names are skipped: another version of the program knows them.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Scopes {
        names.into_iter().filter_map(Self::of_name).collect()
    }
}

/// The scopes of a caller. Cheap to clone.
pub type Scopes = Arc<[Scope]>;
