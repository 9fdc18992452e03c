//! The body of a run: the JSON and the rows after it.

use bytes::Bytes;
use serde_json::json;

use super::{failure::Failure, wire::FP32};
use crate::{backend::Batch, tensor::Signature};

/// A body that can be sent several times without being built again.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// The length of the JSON.
    pub head_len: usize,
    /// The JSON and the rows.
    pub bytes: Bytes,
}

/// Builds a body. The rows are copied once.
///
/// # Errors
/// Returns [`Failure::Malformed`] if the signature has no input.
pub(super) fn encoded(id: &str, signature: &Signature, batch: Batch<'_>) -> Result<Body, Failure> {
    let input = signature
        .inputs
        .first()
        .ok_or_else(|| Failure::Malformed("the model has no input".to_owned()))?;
    let values = size_of_val(batch.data);
    let outputs = signature.outputs.iter();
    let outputs =
        outputs.map(|port| json!({"name": port.name, "parameters": {"binary_data": true}}));
    let head = json!({
        "id": id,
        "inputs": [{
            "name": input.name, "shape": batch.shape(), "datatype": FP32,
            "parameters": {"binary_data_size": values},
        }],
        "outputs": outputs.collect::<Vec<_>>(),
    });
    let head = head.to_string();
    let mut bytes = Vec::with_capacity(head.len() + values);
    bytes.extend_from_slice(head.as_bytes());
    append(&mut bytes, batch.data);
    Ok(Body {
        head_len: head.len(),
        bytes: bytes.into(),
    })
}

/// Appends numbers in little-endian order, as the protocol requires. On a little-endian machine the rows are copied as
/// one block of bytes.
fn append(bytes: &mut Vec<u8>, values: &[f32]) {
    if cfg!(target_endian = "little") {
        bytes.extend_from_slice(bytemuck::must_cast_slice(values));
    } else {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
}
