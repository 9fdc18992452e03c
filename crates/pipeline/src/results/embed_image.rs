//! The result of `/embed?kind=image`.

use facescan_imaging::precision::NumericPrecision;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::EmbeddingResponse;
use crate::{
    core::{
        image_file::ImageInfo,
        scan::{Embedding, Scan},
    },
    operations::embed_image::ImageEmbeddingPlan,
};

/// The result of `/embed?kind=image` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = EncodeResult)]
pub struct ImageEmbeddingResult {
    /// The id of the stored image. Absent with `store=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<Uuid>,
    /// Whether the result comes from the database, without inference.
    pub cached: bool,
    /// The properties of the image.
    pub image: ImageInfo,
    /// The L2-normalized vector. Absent if the model's output has no direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingResponse>,
    /// The length of the vector before normalization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_norm: Option<f32>,
    /// The precision that the model used for the vector. Absent if a remote server ran the model, because it does not
    /// report its precision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<NumericPrecision>,
}

impl ImageEmbeddingResult {
    /// Converts a vector by the options of `plan`.
    pub fn new(embedded: Scan, plan: &ImageEmbeddingPlan) -> Self {
        let found = embedded.embedding.as_ref();
        let written =
            |found: &Embedding| EmbeddingResponse::new(&found.vector, plan.embedding_format);
        Self {
            image_id: embedded.image_id,
            cached: embedded.cached,
            image: embedded.image,
            embedding: found.map(written),
            embedding_norm: found.map(|found| found.norm),
            precision: found.and_then(|found| found.precision),
        }
    }
}
