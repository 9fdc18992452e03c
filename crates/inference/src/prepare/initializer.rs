//! Reads and creates the constant tensors of a graph.

use super::PrepareError;
use crate::onnx::{TensorProto, data_type};

/// A constant as f32. Its stored type may be another.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its dimensions; empty for a scalar.
    pub dims: Vec<usize>,
    /// Its values in row-major order.
    pub values: Vec<f32>,
}

impl Constant {
    /// Reads an f32, int8 or uint8 tensor.
    pub fn read(tensor: &TensorProto) -> Result<Self, PrepareError> {
        let values = match (tensor.data_type(), &tensor.raw_data) {
            (data_type::FLOAT, Some(raw)) => floats(raw),
            (data_type::FLOAT, None) => tensor.float_data.clone(),
            (data_type::INT8, Some(raw)) => raw.iter().map(|&b| f32::from(b as i8)).collect(),
            (data_type::UINT8, Some(raw)) => raw.iter().map(|&b| f32::from(b)).collect(),
            (data_type::INT8 | data_type::UINT8, None) => {
                tensor.int32_data.iter().map(|&v| v as f32).collect()
            }
            (other, _) => return Err(unfit(tensor, format!("has data type {other}"))),
        };
        let dims = dims(tensor)?;
        let expected = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if expected == Some(values.len()) {
            Ok(Self { dims, values })
        } else {
            let has = format!("holds {} values for dimensions {dims:?}", values.len());
            Err(unfit(tensor, has))
        }
    }

    /// Returns the constant as an initializer.
    pub fn to_tensor(&self, name: &str) -> TensorProto {
        let dims: Vec<i64> = self.dims.iter().map(|&d| d as i64).collect();
        let raw = self.values.iter().flat_map(|v| v.to_le_bytes()).collect();
        TensorProto::from_raw(name, data_type::FLOAT, &dims, raw)
    }
}

/// Reads an int64 tensor, such as the shape for a Reshape.
pub fn integers(tensor: &TensorProto) -> Result<Vec<i64>, PrepareError> {
    match (tensor.data_type(), &tensor.raw_data) {
        (data_type::INT64, Some(raw)) => Ok(raw
            .as_chunks()
            .0
            .iter()
            .map(|&b| i64::from_le_bytes(b))
            .collect()),
        (data_type::INT64, None) => Ok(tensor.int64_data.clone()),
        (other, _) => Err(unfit(tensor, format!("has data type {other}, not int64"))),
    }
}

/// Returns a one-dimensional int64 initializer.
pub fn integer_tensor(name: &str, values: &[i64]) -> TensorProto {
    let raw = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    TensorProto::from_raw(name, data_type::INT64, &[values.len() as i64], raw)
}

fn dims(tensor: &TensorProto) -> Result<Vec<usize>, PrepareError> {
    tensor
        .dims
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| unfit(tensor, format!("has a dimension of {d}"))))
        .collect()
}

fn floats(raw: &[u8]) -> Vec<f32> {
    raw.as_chunks()
        .0
        .iter()
        .map(|&b| f32::from_le_bytes(b))
        .collect()
}

fn unfit(tensor: &TensorProto, what: String) -> PrepareError {
    PrepareError::Graph(format!("constant `{}` {what}", tensor.name()))
}
