//! The operations that have a device toggle of their own.

use serde::Serialize;

/// What a device toggle decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Finding faces.
    FaceDetection,
    /// Turning an aligned crop into a vector.
    FaceEmbedding,
    /// Resizing and preprocessing whole pictures.
    ImageProcessing,
    /// Upscaling and sharpening.
    ImageEnhancement,
    /// Blur, brightness, contrast, sharpness and pose.
    QualityChecks,
    /// Turning a whole picture into a vector, where `models.encoder` is set.
    ImageEmbedding,
}

impl Operation {
    /// Every operation, in the order answers list them.
    pub const ALL: [Self; 6] = [
        Self::FaceDetection,
        Self::FaceEmbedding,
        Self::ImageProcessing,
        Self::ImageEnhancement,
        Self::QualityChecks,
        Self::ImageEmbedding,
    ];

    /// The name used in answers, settings and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::FaceDetection => "face_detection",
            Self::FaceEmbedding => "face_embedding",
            Self::ImageProcessing => "image_processing",
            Self::ImageEnhancement => "image_enhancement",
            Self::QualityChecks => "quality_checks",
            Self::ImageEmbedding => "image_embedding",
        }
    }
}
