//! The JSON of responses in the Open Inference Protocol, limited to the fields that are used, with the parameters of its
//! extension for binary tensors. Unknown fields are ignored.
//!
//! Source: the protocol's `open_inference_rest.yaml`, and Triton's `extension_binary_data.md`.

use serde::Deserialize;

/// The header with the length of the JSON before the binary tensors.
pub(super) const HEAD_LENGTH: &str = "inference-header-content-length";

/// The datatype of every tensor.
pub(super) const FP32: &str = "FP32";

/// The number of bytes of a tensor after the JSON.
#[derive(Debug, Default, Deserialize)]
pub(super) struct BinarySize {
    #[serde(default)]
    pub binary_data_size: Option<usize>,
}

/// The JSON of a response.
#[derive(Debug, Deserialize)]
pub(super) struct ResponseHead {
    pub model_name: String,
    #[serde(default)]
    pub model_version: Option<String>,
    #[serde(default)]
    pub id: Option<String>,
    pub outputs: Vec<ResponseOutput>,
}

/// An output of a response.
#[derive(Debug, Deserialize)]
pub(super) struct ResponseOutput {
    pub name: String,
    pub shape: Vec<usize>,
    pub datatype: String,
    #[serde(default)]
    pub parameters: BinarySize,
}

/// The server's description of a model.
#[derive(Debug, Deserialize)]
pub(super) struct ModelMetadata {
    pub name: String,
    #[serde(default)]
    pub versions: Vec<String>,
    pub inputs: Vec<TensorMetadata>,
    pub outputs: Vec<TensorMetadata>,
}

/// The server's description of one input or output. −1 is a dynamic dimension.
#[derive(Debug, Deserialize)]
pub(super) struct TensorMetadata {
    pub name: String,
    pub datatype: String,
    pub shape: Vec<i64>,
}

/// The body of a response with another status than 200.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorBody {
    pub error: String,
}
