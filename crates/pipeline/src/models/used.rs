//! The models that made a response.

use facescan_inference::registry::ModelSpec;
use serde::Serialize;
use utoipa::ToSchema;

/// The models that made an answer.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ModelsUsed {
    /// The model that found the faces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detector: Option<ModelUsed>,
    /// The model that made the vectors of faces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedder: Option<EmbedderUsed>,
    /// The model that made the vectors of whole images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder: Option<EmbedderUsed>,
}

/// A model without vectors, by id and content.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ModelUsed {
    /// The id in the registry.
    pub id: String,
    /// The sha256 of the model file.
    pub sha256: String,
}

/// An embedder, by id and vector space.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EmbedderUsed {
    /// The id in the registry.
    pub id: String,
    /// The length of its vectors.
    pub dim: usize,
    /// The vector space of its vectors. Vectors with different vector spaces cannot be compared.
    pub vector_space: String,
}

impl ModelUsed {
    pub(super) fn new(spec: &ModelSpec) -> Self {
        Self {
            id: spec.id.clone(),
            sha256: spec.sha256.clone(),
        }
    }
}

impl EmbedderUsed {
    pub(super) fn new(spec: &ModelSpec, vector_space: &str) -> Self {
        Self {
            id: spec.id.clone(),
            dim: spec.dim.unwrap_or(0),
            vector_space: vector_space.to_owned(),
        }
    }
}
