//! The output of preprocessing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The type of a tensor's values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32-bit floats.
    #[default]
    F32,
    /// 16-bit floats (IEEE 754).
    F16,
    /// Brain floats: the upper half of an `f32`.
    Bf16,
}
