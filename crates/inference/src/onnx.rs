//! The ONNX file format: the messages of the public schema (IR version 13) that this crate reads or writes, as plain
//! structs.
//!
//! Names and tags are the schema's (<https://onnx.ai/onnx/api/classes.html>). Each alternative of a `oneof` is an
//! optional field, which reads and writes the same bytes. A message that nothing here looks into is kept as its bytes.
//! prost drops unknown fields silently, so [`decode`] refuses a file that would lose data in these structs.

use prost::Message;

/// The schema's `TensorProto.DataType` numbers that this crate reads or writes.
pub mod data_type {
    pub const FLOAT: i32 = 1;
    pub const UINT8: i32 = 2;
    pub const INT8: i32 = 3;
    pub const INT32: i32 = 6;
    pub const INT64: i32 = 7;
}

/// The reason why bytes cannot be rewritten as a model.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// Not the protobuf of an ONNX model.
    #[error("not an ONNX model: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// The rewritten file would have a different number of bytes.
    #[error("the model has fields this build does not know: {read} bytes read, {kept} kept")]
    UnknownFields {
        /// Length of the file.
        read: usize,
        /// Length of what would be written back.
        kept: usize,
    },
}

/// Reads a model.
///
/// # Errors
/// Returns an error if the bytes are not an ONNX model, or if the model has fields that these structs do not hold.
pub fn decode(bytes: &[u8]) -> Result<ModelProto, OnnxError> {
    let model = ModelProto::decode(bytes)?;
    let (read, kept) = (bytes.len(), model.encoded_len());
    if read == kept {
        Ok(model)
    } else {
        Err(OnnxError::UnknownFields { read, kept })
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub domain: Option<String>,
    #[prost(int64, optional, tag = "5")]
    pub model_version: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
    #[prost(bytes = "vec", repeated, tag = "20")]
    pub training_info: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "25")]
    pub functions: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "26")]
    pub configuration: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(string, optional, tag = "10")]
    pub doc_string: Option<String>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub quantization_annotation: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "15")]
    pub sparse_initializer: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
    #[prost(string, optional, tag = "8")]
    pub overload: Option<String>,
    #[prost(message, repeated, tag = "9")]
    pub metadata_props: Vec<StringStringEntryProto>,
    #[prost(bytes = "vec", repeated, tag = "10")]
    pub device_configurations: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "10")]
    pub tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<GraphProto>,
    #[prost(string, optional, tag = "13")]
    pub doc_string: Option<String>,
    #[prost(bytes = "vec", optional, tag = "14")]
    pub tp: Option<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "15")]
    pub type_protos: Vec<Vec<u8>>,
    #[prost(int32, optional, tag = "20")]
    pub r#type: Option<i32>,
    #[prost(string, optional, tag = "21")]
    pub ref_attr_name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "22")]
    pub sparse_tensor: Option<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "23")]
    pub sparse_tensors: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub segment: Option<Vec<u8>>,
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    #[prost(string, optional, tag = "12")]
    pub doc_string: Option<String>,
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    #[prost(string, optional, tag = "3")]
    pub doc_string: Option<String>,
    #[prost(message, repeated, tag = "4")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub sequence_type: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub map_type: Option<Vec<u8>>,
    #[prost(string, optional, tag = "6")]
    pub denotation: Option<String>,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub opaque_type: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "8")]
    pub sparse_tensor_type: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub optional_type: Option<Vec<u8>>,
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub denotation: Option<String>,
}

/// The schema's `AttributeProto.AttributeType` numbers that this crate writes.
mod attribute_type {
    pub const INT: i32 = 2;
    pub const INTS: i32 = 7;
}

impl AttributeProto {
    /// Creates an attribute that is an integer.
    pub fn from_integer(name: &str, value: i64) -> Self {
        Self {
            name: Some(name.to_owned()),
            i: Some(value),
            r#type: Some(attribute_type::INT),
            ..Self::default()
        }
    }

    /// Creates an attribute that is a list of integers.
    pub fn from_integers(name: &str, values: &[i64]) -> Self {
        Self {
            name: Some(name.to_owned()),
            ints: values.to_vec(),
            r#type: Some(attribute_type::INTS),
            ..Self::default()
        }
    }
}

impl NodeProto {
    /// Creates a node without attributes. Its name is that of its output, which is unique. Profiles and errors show it.
    pub fn new(op_type: &str, inputs: &[&str], output: &str) -> Self {
        Self {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.to_owned()],
            name: Some(output.to_owned()),
            op_type: Some(op_type.to_owned()),
            ..Self::default()
        }
    }
}

impl TensorProto {
    /// Creates a tensor of values in little-endian order, as the format requires.
    pub fn from_raw(name: &str, data_type: i32, dims: &[i64], raw: Vec<u8>) -> Self {
        Self {
            dims: dims.to_vec(),
            data_type: Some(data_type),
            name: Some(name.to_owned()),
            raw_data: Some(raw),
            ..Self::default()
        }
    }
}

impl ValueInfoProto {
    /// Creates the declaration of a tensor.
    pub fn new(name: &str, elem_type: i32, dim: Vec<Dimension>) -> Self {
        let tensor = TensorType {
            elem_type: Some(elem_type),
            shape: Some(TensorShapeProto { dim }),
        };
        Self {
            name: Some(name.to_owned()),
            r#type: Some(TypeProto {
                tensor_type: Some(tensor),
                ..TypeProto::default()
            }),
            ..Self::default()
        }
    }
}

impl Dimension {
    /// Creates a dimension of a fixed size.
    pub fn fixed(size: i64) -> Self {
        Self {
            dim_value: Some(size),
            ..Self::default()
        }
    }

    /// Creates a dynamic dimension. The same name means the same size.
    pub fn dynamic(name: &str) -> Self {
        Self {
            dim_param: Some(name.to_owned()),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_is_refused() {
        let model = ModelProto {
            ir_version: Some(6),
            ..Default::default()
        };
        let mut bytes = model.encode_to_vec();
        assert_eq!(decode(&bytes).unwrap(), model);
        // Field 99, a varint, is not in the schema.
        bytes.extend([0x98, 0x06, 0x01]);
        assert!(matches!(
            decode(&bytes),
            Err(OnnxError::UnknownFields { read: 5, kept: 2 })
        ));
    }

    #[test]
    fn a_message_that_nothing_looks_into_keeps_all_its_fields() {
        let model = ModelProto {
            functions: vec![vec![0x98, 0x06, 0x01], Vec::new()],
            ..Default::default()
        };
        assert_eq!(decode(&model.encode_to_vec()).unwrap(), model);
    }

    #[test]
    fn bytes_that_are_no_model_are_refused() {
        assert!(matches!(
            decode(b"\xff\xff\xff\xff"),
            Err(OnnxError::Malformed(_))
        ));
    }
}
