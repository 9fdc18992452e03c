//! Checks a server's response to a run against the request and the model's metadata.

use bytes::Bytes;

use super::{
    failure::Failure,
    wire::{FP32, ResponseHead, ResponseOutput},
};
use crate::tensor::{Port, Signature, Tensor};

/// A response as it was read.
#[derive(Debug)]
pub(super) struct InferResponse {
    /// The length of the JSON, if the header has it.
    pub head_len: Option<usize>,
    /// The JSON and the tensors.
    pub bytes: Bytes,
}

/// What a response must match.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedResponse<'a> {
    pub id: &'a str,
    pub model: &'a str,
    pub version: Option<&'a str>,
    pub rows: usize,
    pub signature: &'a Signature,
}

impl InferResponse {
    /// Returns the outputs in the model's order.
    ///
    /// # Errors
    /// Returns [`Failure::Malformed`] if the response does not match. The error describes the first mismatch.
    pub fn outputs(&self, expected: ExpectedResponse<'_>) -> Result<Vec<Tensor>, Failure> {
        self.read(expected).map_err(Failure::Malformed)
    }

    fn read(&self, expected: ExpectedResponse<'_>) -> Result<Vec<Tensor>, String> {
        let len = self.head_len.ok_or(
            "it has no binary tensors; the server needs the protocol's extension for them",
        )?;
        let (head, mut rest) = self.bytes.split_at_checked(len).ok_or_else(|| {
            format!(
                "its JSON is to have {len} bytes, and there are {} in all",
                self.bytes.len()
            )
        })?;
        let head: ResponseHead =
            serde_json::from_slice(head).map_err(|error| format!("its JSON: {error}"))?;
        check_head(&head, expected)?;
        let mut tensors = Vec::with_capacity(head.outputs.len());
        for output in head.outputs {
            let port = expected
                .signature
                .outputs
                .iter()
                .find(|port| port.name == output.name)
                .ok_or_else(|| format!("the output `{}` was not requested", output.name))?;
            let size = checked_size(&output, port, expected.rows)?;
            let (values, others) = rest.split_at_checked(size).ok_or_else(|| {
                format!(
                    "the output `{}` is to have {size} bytes, and {} are left",
                    output.name,
                    rest.len()
                )
            })?;
            rest = others;
            tensors.push(Tensor {
                name: output.name,
                shape: output.shape,
                data: floats(values),
            });
        }
        if !rest.is_empty() {
            return Err(format!("{} bytes follow its last output", rest.len()));
        }
        in_order(tensors, &expected.signature.outputs)
    }
}

fn check_head(head: &ResponseHead, expected: ExpectedResponse<'_>) -> Result<(), String> {
    if head.id.as_deref() != Some(expected.id) {
        return Err(format!(
            "it has the id {:?}, and the request has {:?}",
            head.id.as_deref().unwrap_or_default(),
            expected.id
        ));
    }
    if head.model_name != expected.model {
        return Err(format!("it comes from the model `{}`", head.model_name));
    }
    // Another version may return other embeddings, which must never be mixed with existing ones.
    match (&head.model_version, expected.version) {
        (Some(found), Some(version)) if found != version => Err(format!(
            "it comes from version {found} of the model, and the one in use is {version}; \
             set version, and restart for another one"
        )),
        _ => Ok(()),
    }
}

/// Returns the number of bytes of an output, if its type and shape are correct and the response declares the same
/// number.
fn checked_size(output: &ResponseOutput, port: &Port, rows: usize) -> Result<usize, String> {
    let name = &output.name;
    if output.datatype != FP32 {
        return Err(format!(
            "the output `{name}` is of the type {}",
            output.datatype
        ));
    }
    let fits = output.shape.first() == Some(&rows)
        && output.shape.len() == port.dims.len()
        && output
            .shape
            .iter()
            .zip(&port.dims)
            .skip(1)
            .all(|(found, dim)| dim.is_none_or(|dim| dim == *found));
    if !fits {
        return Err(format!(
            "the output `{name}` has the shape {:?} for {rows} rows, and the model's is {:?}",
            output.shape, port.dims
        ));
    }
    let expected = output
        .shape
        .iter()
        .try_fold(size_of::<f32>(), |size, dim| size.checked_mul(*dim));
    let size = output.parameters.binary_data_size.ok_or_else(|| {
        format!(
            "the output `{name}` is not binary; the server needs the protocol's extension for that"
        )
    })?;
    if Some(size) == expected {
        Ok(size)
    } else {
        Err(format!(
            "the output `{name}` of the shape {:?} is to have {size} bytes",
            output.shape
        ))
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (values, _) = bytes.as_chunks::<4>();
    values
        .iter()
        .map(|value| f32::from_le_bytes(*value))
        .collect()
}

/// Sorts the outputs by the model's order, because servers may return them in any order.
fn in_order(mut tensors: Vec<Tensor>, ports: &[Port]) -> Result<Vec<Tensor>, String> {
    let place = |tensor: &Tensor| ports.iter().position(|port| port.name == tensor.name);
    tensors.sort_by_key(place);
    if tensors.len() == ports.len()
        && tensors
            .iter()
            .zip(ports)
            .all(|(tensor, port)| tensor.name == port.name)
    {
        Ok(tensors)
    } else {
        let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        Err(format!(
            "it has the outputs [{}], but must have each of the model's {} outputs once",
            names.join(", "),
            ports.len()
        ))
    }
}

#[cfg(test)]
mod tests;
