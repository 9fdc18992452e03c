//! The JSON of the Open Inference Protocol, as far as it is used, with the parameters of its extension for binary
//! tensors. Servers may say more; what is not named here is passed over.
//!
//! Source: the protocol's `open_inference_rest.yaml`, and Triton's `extension_binary_data.md`.

use serde::{Deserialize, Serialize};

/// The header that says how long the JSON before the binary tensors is.
pub(super) const HEAD_LENGTH: &str = "inference-header-content-length";

/// The datatype of every tensor that is sent or taken.
pub(super) const FP32: &str = "FP32";

/// The JSON of a run.
#[derive(Debug, Serialize)]
pub(super) struct RequestHead<'a> {
    pub id: &'a str,
    pub inputs: [RequestInput<'a>; 1],
    pub outputs: Vec<RequestOutput<'a>>,
}

/// An input whose values follow the JSON.
#[derive(Debug, Serialize)]
pub(super) struct RequestInput<'a> {
    pub name: &'a str,
    pub shape: &'a [usize],
    pub datatype: &'static str,
    pub parameters: BinarySize,
}

/// How many bytes a tensor has behind the JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct BinarySize {
    #[serde(default)]
    pub binary_data_size: Option<usize>,
}

/// An output that is wanted behind the JSON.
#[derive(Debug, Serialize)]
pub(super) struct RequestOutput<'a> {
    pub name: &'a str,
    pub parameters: BinaryData,
}

/// Whether values are wanted behind the JSON.
#[derive(Debug, Serialize)]
pub(super) struct BinaryData {
    pub binary_data: bool,
}

/// The JSON of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct AnswerHead {
    pub model_name: String,
    #[serde(default)]
    pub model_version: Option<String>,
    #[serde(default)]
    pub id: Option<String>,
    pub outputs: Vec<AnswerOutput>,
}

/// An output of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct AnswerOutput {
    pub name: String,
    pub shape: Vec<usize>,
    pub datatype: String,
    #[serde(default)]
    pub parameters: BinarySize,
}

/// What a server says about a model.
#[derive(Debug, Deserialize)]
pub(super) struct ModelMetadata {
    pub name: String,
    #[serde(default)]
    pub versions: Vec<String>,
    pub inputs: Vec<TensorMetadata>,
    pub outputs: Vec<TensorMetadata>,
}

/// What a server says about one input or output; −1 is a free dimension.
#[derive(Debug, Deserialize)]
pub(super) struct TensorMetadata {
    pub name: String,
    pub datatype: String,
    pub shape: Vec<i64>,
}

/// What a server says with another status than 200.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorBody {
    pub error: String,
}
