//! Writes a graph: values get names, constants are shared, and each method is one ONNX operation.
//!
//! Everything is opset 17, which ONNX Runtime's providers have supported for years. Arithmetic that must be exact uses
//! only operations without a lower precision mode. Convolutions run in TF32 on NVIDIA GPUs by default, so no image
//! operation has one; [`Builder::slice`] adds neighbors instead. [`Builder::matmul`] documents what it needs.

use prost::Message;

use super::session::GraphModel;
use crate::onnx::{
    AttributeProto, Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto, data_type,
};

const OPSET: i64 = 17;
/// The file version that belongs to opset 17.
const IR_VERSION: i64 = 8;

/// The end of a slice that takes the rest of an axis.
pub const END: i64 = i64::MAX;

/// The type of a value's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    U8,
    I32,
    F32,
}

impl Kind {
    fn number(self) -> i32 {
        match self {
            Self::U8 => data_type::UINT8,
            Self::I32 => data_type::INT32,
            Self::F32 => data_type::FLOAT,
        }
    }
}

/// A dimension of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A fixed size.
    Is(i64),
    /// A dynamic size. The same name means the same size.
    Free(&'static str),
}

/// A value of the graph, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(String);

/// A graph under construction.
pub struct Builder {
    graph: GraphProto,
}

impl Builder {
    /// Returns the file of the graph that `write` describes. The same description returns the same bytes.
    pub fn write(name: &'static str, write: impl FnOnce(&mut Self)) -> GraphModel {
        let graph = GraphProto {
            name: Some(name.to_owned()),
            ..Default::default()
        };
        let mut builder = Self { graph };
        write(&mut builder);
        let model = ModelProto {
            ir_version: Some(IR_VERSION),
            producer_name: Some("facescan".to_owned()),
            graph: Some(builder.graph),
            opset_import: vec![OperatorSetIdProto {
                domain: Some(String::new()),
                version: Some(OPSET),
            }],
            ..Default::default()
        };
        GraphModel {
            name,
            bytes: model.encode_to_vec(),
        }
    }

    pub fn input(&mut self, name: &str, kind: Kind, dims: &[Dim]) -> Value {
        self.graph.input.push(declared(name, kind, dims));
        Value(name.to_owned())
    }

    /// Declares `value` as the output `name`.
    pub fn output(&mut self, name: &str, value: &Value, kind: Kind, dims: &[Dim]) {
        self.push("Identity", &[value], Vec::new(), name);
        self.graph.output.push(declared(name, kind, dims));
    }

    /// Returns a constant of floats.
    pub fn floats(&mut self, dims: &[i64], values: &[f32]) -> Value {
        let raw = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(data_type::FLOAT, dims, raw)
    }

    /// Returns a scalar constant, which broadcasts to any shape.
    pub fn float(&mut self, value: f32) -> Value {
        self.floats(&[], &[value])
    }

    fn integers(&mut self, values: &[i64]) -> Value {
        let raw = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(data_type::INT64, &[values.len() as i64], raw)
    }

    fn constant(&mut self, kind: i32, dims: &[i64], raw: Vec<u8>) -> Value {
        let same = |t: &&TensorProto| {
            t.data_type() == kind && t.dims == dims && t.raw_data.as_ref() == Some(&raw)
        };
        if let Some(known) = self.graph.initializer.iter().find(same) {
            return Value(known.name().to_owned());
        }
        let name = format!("c{}", self.graph.initializer.len());
        let constant = TensorProto::from_raw(&name, kind, dims, raw);
        self.graph.initializer.push(constant);
        Value(name)
    }

    fn node(&mut self, op: &str, inputs: &[&Value], attributes: Vec<AttributeProto>) -> Value {
        let name = format!("{}_{}", op.to_ascii_lowercase(), self.graph.node.len());
        self.push(op, inputs, attributes, &name);
        Value(name)
    }

    fn push(&mut self, op: &str, inputs: &[&Value], attribute: Vec<AttributeProto>, output: &str) {
        let inputs: Vec<&str> = inputs.iter().map(|value| value.0.as_str()).collect();
        self.graph.node.push(NodeProto {
            attribute,
            ..NodeProto::new(op, &inputs, output)
        });
    }

    pub fn add(&mut self, a: &Value, b: &Value) -> Value {
        self.node("Add", &[a, b], Vec::new())
    }

    pub fn sub(&mut self, a: &Value, b: &Value) -> Value {
        self.node("Sub", &[a, b], Vec::new())
    }

    pub fn mul(&mut self, a: &Value, b: &Value) -> Value {
        self.node("Mul", &[a, b], Vec::new())
    }

    pub fn div(&mut self, a: &Value, b: &Value) -> Value {
        self.node("Div", &[a, b], Vec::new())
    }

    /// Returns `a + number`.
    pub fn plus(&mut self, a: &Value, number: f32) -> Value {
        let number = self.float(number);
        self.add(a, &number)
    }

    /// Returns `a · number`.
    pub fn times(&mut self, a: &Value, number: f32) -> Value {
        let number = self.float(number);
        self.mul(a, &number)
    }

    pub fn floor(&mut self, a: &Value) -> Value {
        self.node("Floor", &[a], Vec::new())
    }

    pub fn sqrt(&mut self, a: &Value) -> Value {
        self.node("Sqrt", &[a], Vec::new())
    }

    pub fn relu(&mut self, a: &Value) -> Value {
        self.node("Relu", &[a], Vec::new())
    }

    pub fn clip(&mut self, a: &Value, least: f32, most: f32) -> Value {
        let (least, most) = (self.float(least), self.float(most));
        self.node("Clip", &[a, &least, &most], Vec::new())
    }

    pub fn cast(&mut self, a: &Value, kind: Kind) -> Value {
        let to = AttributeProto::from_integer("to", i64::from(kind.number()));
        self.node("Cast", &[a], vec![to])
    }

    /// Returns the elements of `axis` at `indices`. The axes of `indices` replace `axis`.
    pub fn gather(&mut self, a: &Value, indices: &Value, axis: i64) -> Value {
        self.node(
            "Gather",
            &[a, indices],
            vec![AttributeProto::from_integer("axis", axis)],
        )
    }

    /// Returns `start..end` of `axis`. Negative indices count from the end, and indices beyond the ends are clamped.
    pub fn slice(&mut self, a: &Value, axis: i64, start: i64, end: i64) -> Value {
        let (start, end) = (self.integers(&[start]), self.integers(&[end]));
        let axis = self.integers(&[axis]);
        self.node("Slice", &[a, &start, &end, &axis], Vec::new())
    }

    pub fn concat(&mut self, parts: &[&Value], axis: i64) -> Value {
        self.node(
            "Concat",
            parts,
            vec![AttributeProto::from_integer("axis", axis)],
        )
    }

    pub fn transpose(&mut self, a: &Value, order: &[i64]) -> Value {
        self.node(
            "Transpose",
            &[a],
            vec![AttributeProto::from_integers("perm", order)],
        )
    }

    pub fn unsqueeze(&mut self, a: &Value, axis: i64) -> Value {
        let axis = self.integers(&[axis]);
        self.node("Unsqueeze", &[a, &axis], Vec::new())
    }

    /// Removes axes of size 1.
    pub fn squeeze(&mut self, a: &Value, axes: &[i64]) -> Value {
        let axes = self.integers(axes);
        self.node("Squeeze", &[a, &axes], Vec::new())
    }

    /// Returns the product of the last two axes; the axes before are broadcast. Providers may shorten the factors.
    /// NVIDIA GPUs use TF32's 11 bits, which moved resized samples by up to 0.15 of a level. OpenVINO on processors
    /// with AMX uses bf16's 8 bits, which moved them by 1.3. Where that matters, the session must forbid it: CUDA with
    /// `use_tf32=0`, OpenVINO with `INFERENCE_PRECISION_HINT=f32`.
    pub fn matmul(&mut self, a: &Value, b: &Value) -> Value {
        self.node("MatMul", &[a, b], Vec::new())
    }

    /// Returns the convolution with weights `[out, in, 1, 1]`, plus `bias` `[out]`. It may run in a lower precision, so
    /// its values must be exact in every precision.
    pub fn pointwise_conv(&mut self, a: &Value, weights: &Value, bias: &Value) -> Value {
        let kernel = AttributeProto::from_integers("kernel_shape", &[1, 1]);
        self.node("Conv", &[a, weights, bias], vec![kernel])
    }

    /// Returns the sum along `axis`, which remains with a size of 1.
    pub fn sum(&mut self, a: &Value, axis: i64) -> Value {
        let axis = self.integers(&[axis]);
        self.node("ReduceSum", &[a, &axis], Vec::new())
    }

    /// Returns the mean along `axis`, which remains with a size of 1.
    pub fn mean(&mut self, a: &Value, axis: i64) -> Value {
        let axes = AttributeProto::from_integers("axes", &[axis]);
        self.node("ReduceMean", &[a], vec![axes])
    }

    /// Returns the size of `axis` as a float of shape `[1]`.
    pub fn size(&mut self, a: &Value, axis: i64) -> Value {
        let ends = [("start", axis), ("end", axis + 1)];
        let ends = ends.map(|(name, end)| AttributeProto::from_integer(name, end));
        let size = self.node("Shape", &[a], ends.to_vec());
        self.cast(&size, Kind::F32)
    }

    /// Repeats the outermost sample at both ends of `axis`.
    pub fn repeat_edges(&mut self, a: &Value, axis: i64) -> Value {
        let (first, last) = (self.slice(a, axis, 0, 1), self.slice(a, axis, -1, END));
        self.concat(&[&first, a, &last], axis)
    }

    /// Adds one sample at both ends of `axis`: the inner neighbor (reflect-101), or the sample itself if it is the
    /// only one. `Pad` refuses to reflect a single sample. A slice is clamped where the axis ends, so the result is the
    /// same.
    pub fn reflect_edges(&mut self, a: &Value, axis: i64) -> Value {
        let (first_two, last_two) = (self.slice(a, axis, 0, 2), self.slice(a, axis, -2, END));
        let second = self.slice(&first_two, axis, -1, END);
        let last_but_one = self.slice(&last_two, axis, 0, 1);
        self.concat(&[&second, a, &last_but_one], axis)
    }

    /// Returns the sample before, the sample itself and the sample after, for an axis that is padded by one at both
    /// ends.
    pub fn neighbors(&mut self, a: &Value, axis: i64) -> [Value; 3] {
        [(0, -2), (1, -1), (2, END)].map(|(start, end)| self.slice(a, axis, start, end))
    }
}

fn declared(name: &str, kind: Kind, dims: &[Dim]) -> ValueInfoProto {
    let dim = dims.iter().map(|dim| match *dim {
        Dim::Is(size) => Dimension::fixed(size),
        Dim::Free(name) => Dimension::dynamic(name),
    });
    ValueInfoProto::new(name, kind.number(), dim.collect())
}
