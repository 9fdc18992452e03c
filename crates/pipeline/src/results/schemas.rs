//! What each operation returns for an image, with the names of the schemas.

use serde::Serialize;
use utoipa::{ToSchema, openapi::Ref};

use super::{
    ImageEmbeddingResult, ScanResult,
    response::{ImageResult, NamedSchemas, add_image},
};
use crate::operations::{enhance::result::EnhanceResult, process::result::ProcessResult};

/// The name of the schema of an image with the vector of the whole image.
pub const ENCODED_IMAGE: &str = "EncodedImage";

/// The result of `/embed` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum EmbedResult {
    /// The faces and their vectors.
    Faces(ScanResult),
    /// The vector of the whole image, with `kind=image`.
    Image(ImageEmbeddingResult),
}

impl From<ScanResult> for EmbedResult {
    fn from(result: ScanResult) -> Self {
        Self::Faces(result)
    }
}

impl ImageResult for ScanResult {
    const NAME: &'static str = "Scan";
    const IMAGE: &'static str = "ScannedImage";
}

impl ImageResult for EmbedResult {
    const NAME: &'static str = "Embed";
    const IMAGE: &'static str = ENCODED_IMAGE;

    fn add_images(schemas: &mut NamedSchemas) -> Vec<Ref> {
        let mut images = ScanResult::add_images(schemas);
        images.push(add_image::<ImageEmbeddingResult>(Self::IMAGE, schemas));
        images
    }
}

impl ImageResult for EnhanceResult {
    const NAME: &'static str = "Enhance";
    const IMAGE: &'static str = "EnhancedImage";
}

impl ImageResult for ProcessResult {
    const NAME: &'static str = "Process";
    const IMAGE: &'static str = "ProcessedImage";
}
