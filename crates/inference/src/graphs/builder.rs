//! Writes a graph: values get names, constants are shared, and each method or operator is one ONNX operation.
//!
//! Everything is opset 17, which ONNX Runtime's providers have supported for years. Arithmetic that must be exact uses
//! only operations without a lower precision mode. Convolutions run in TF32 on NVIDIA GPUs by default, so no image
//! operation has one; [`Value::slice`] adds neighbors instead. [`Value::matmul`] documents what it needs.

use std::{cell::RefCell, ops, rc::Rc};

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
#[repr(i32)]
pub enum Kind {
    U8 = data_type::UINT8,
    I32 = data_type::INT32,
    F32 = data_type::FLOAT,
}

/// A dimension of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A fixed size.
    Is(i64),
    /// A dynamic size. The same name means the same size.
    Free(&'static str),
}

/// A graph under construction.
pub struct Builder {
    graph: Rc<RefCell<GraphProto>>,
}

/// A value of a graph, by its name. An operation on it adds a node to the graph.
#[derive(Clone)]
pub struct Value {
    graph: Rc<RefCell<GraphProto>>,
    name: String,
}

impl Builder {
    /// Returns the file of the graph that `write` describes. The same description returns the same bytes.
    pub fn write(name: &'static str, write: impl FnOnce(&Self)) -> GraphModel {
        let builder = Self {
            graph: Rc::default(),
        };
        write(&builder);
        let graph = GraphProto {
            name: Some(name.to_owned()),
            ..builder.graph.take()
        };
        let model = ModelProto {
            ir_version: Some(IR_VERSION),
            producer_name: Some("facescan".to_owned()),
            graph: Some(graph),
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

    pub fn input(&self, name: &str, kind: Kind, dims: &[Dim]) -> Value {
        let input = declared(name, kind, dims);
        self.graph.borrow_mut().input.push(input);
        value(&self.graph, name.to_owned())
    }

    /// Declares `value` as the output `name`.
    pub fn output(&self, name: &str, value: &Value, kind: Kind, dims: &[Dim]) {
        let mut graph = self.graph.borrow_mut();
        let identity = NodeProto::new("Identity", &[&value.name], name);
        graph.node.push(identity);
        graph.output.push(declared(name, kind, dims));
    }

    /// Returns a constant of floats.
    pub fn floats(&self, dims: &[i64], values: &[f32]) -> Value {
        let raw = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        constant(&self.graph, data_type::FLOAT, dims, raw)
    }
}

fn value(graph: &Rc<RefCell<GraphProto>>, name: String) -> Value {
    let graph = Rc::clone(graph);
    Value { graph, name }
}

fn constant(graph: &Rc<RefCell<GraphProto>>, kind: i32, dims: &[i64], raw: Vec<u8>) -> Value {
    let constants = &mut graph.borrow_mut().initializer;
    let same = |t: &&TensorProto| {
        t.data_type() == kind && t.dims == dims && t.raw_data.as_ref() == Some(&raw)
    };
    if let Some(known) = constants.iter().find(same) {
        return value(graph, known.name().to_owned());
    }
    let name = format!("c{}", constants.len());
    constants.push(TensorProto::from_raw(&name, kind, dims, raw));
    value(graph, name)
}

/// The other side of an operator: a value, or a number that broadcasts to any shape.
pub trait Operand {
    /// Returns it as a value of the graph of `a`.
    fn beside(self, a: &Value) -> Value;
}

impl Operand for Value {
    fn beside(self, _: &Value) -> Value {
        self
    }
}

impl Operand for &Value {
    fn beside(self, _: &Value) -> Value {
        self.clone()
    }
}

impl Operand for f32 {
    fn beside(self, a: &Value) -> Value {
        constant(&a.graph, data_type::FLOAT, &[], self.to_le_bytes().to_vec())
    }
}

/// Implements an operator of values as an ONNX operation.
macro_rules! operators {
    ($($operator:ident, $method:ident;)+) => {$(
        impl<T: Operand> ops::$operator<T> for &Value {
            type Output = Value;

            fn $method(self, other: T) -> Value {
                let other = other.beside(self);
                self.node(stringify!($operator), &[&other], Vec::new())
            }
        }

        impl<T: Operand> ops::$operator<T> for Value {
            type Output = Value;

            fn $method(self, other: T) -> Value {
                ops::$operator::$method(&self, other)
            }
        }
    )+};
}

operators! {
    Add, add;
    Sub, sub;
    Mul, mul;
    Div, div;
}

impl Value {
    /// Adds a node whose first input is this value.
    fn node(&self, op: &str, others: &[&Value], attribute: Vec<AttributeProto>) -> Value {
        let nodes = &mut self.graph.borrow_mut().node;
        let name = format!("{}_{}", op.to_ascii_lowercase(), nodes.len());
        let inputs = [&[self], others].concat();
        let inputs: Vec<&str> = inputs.iter().map(|value| value.name.as_str()).collect();
        nodes.push(NodeProto {
            attribute,
            ..NodeProto::new(op, &inputs, &name)
        });
        value(&self.graph, name)
    }

    fn integers(&self, values: &[i64]) -> Value {
        let raw = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        constant(&self.graph, data_type::INT64, &[values.len() as i64], raw)
    }

    pub fn floor(&self) -> Value {
        self.node("Floor", &[], Vec::new())
    }

    pub fn sqrt(&self) -> Value {
        self.node("Sqrt", &[], Vec::new())
    }

    pub fn relu(&self) -> Value {
        self.node("Relu", &[], Vec::new())
    }

    pub fn clip(&self, least: f32, most: f32) -> Value {
        let [least, most] = [least, most].map(|limit| limit.beside(self));
        self.node("Clip", &[&least, &most], Vec::new())
    }

    pub fn cast(&self, kind: Kind) -> Value {
        let to = AttributeProto::from_integer("to", kind as i64);
        self.node("Cast", &[], vec![to])
    }

    /// Returns the elements of `axis` at `indices`. The axes of `indices` replace `axis`.
    pub fn gather(&self, indices: &Value, axis: i64) -> Value {
        let axis = AttributeProto::from_integer("axis", axis);
        self.node("Gather", &[indices], vec![axis])
    }

    /// Returns `start..end` of `axis`. Negative indices count from the end, and indices beyond the ends are clamped.
    pub fn slice(&self, axis: i64, start: i64, end: i64) -> Value {
        let [start, end, axis] = [start, end, axis].map(|number| self.integers(&[number]));
        self.node("Slice", &[&start, &end, &axis], Vec::new())
    }

    /// Returns this value and the others, one after the other along `axis`.
    pub fn concat(&self, others: &[&Value], axis: i64) -> Value {
        let axis = AttributeProto::from_integer("axis", axis);
        self.node("Concat", others, vec![axis])
    }

    pub fn transpose(&self, order: &[i64]) -> Value {
        let order = AttributeProto::from_integers("perm", order);
        self.node("Transpose", &[], vec![order])
    }

    pub fn unsqueeze(&self, axis: i64) -> Value {
        let axis = self.integers(&[axis]);
        self.node("Unsqueeze", &[&axis], Vec::new())
    }

    /// Removes axes of size 1.
    pub fn squeeze(&self, axes: &[i64]) -> Value {
        let axes = self.integers(axes);
        self.node("Squeeze", &[&axes], Vec::new())
    }

    /// Returns the product of the last two axes; the axes before are broadcast. Providers may shorten the factors.
    /// NVIDIA GPUs use TF32's 11 bits, which moved resized samples by up to 0.15 of a level. OpenVINO on processors
    /// with AMX uses bf16's 8 bits, which moved them by 1.3. Where that matters, the session must forbid it: CUDA with
    /// `use_tf32=0`, OpenVINO with `INFERENCE_PRECISION_HINT=f32`.
    pub fn matmul(&self, other: &Value) -> Value {
        self.node("MatMul", &[other], Vec::new())
    }

    /// Returns the convolution with weights `[out, in, 1, 1]`, plus `bias` `[out]`. It may run in a lower precision, so
    /// its values must be exact in every precision.
    pub fn pointwise_conv(&self, weights: &Value, bias: &Value) -> Value {
        let kernel = AttributeProto::from_integers("kernel_shape", &[1, 1]);
        self.node("Conv", &[weights, bias], vec![kernel])
    }

    /// Returns the sum along `axis`, which remains with a size of 1.
    pub fn sum(&self, axis: i64) -> Value {
        let axis = self.integers(&[axis]);
        self.node("ReduceSum", &[&axis], Vec::new())
    }

    /// Returns the mean along `axis`, which remains with a size of 1.
    pub fn mean(&self, axis: i64) -> Value {
        let axes = AttributeProto::from_integers("axes", &[axis]);
        self.node("ReduceMean", &[], vec![axes])
    }

    /// Returns the size of `axis` as a float of shape `[1]`.
    pub fn size(&self, axis: i64) -> Value {
        let ends = [("start", axis), ("end", axis + 1)];
        let ends = ends.map(|(name, end)| AttributeProto::from_integer(name, end));
        self.node("Shape", &[], ends.to_vec()).cast(Kind::F32)
    }

    /// Repeats the outermost sample at both ends of `axis`.
    pub fn repeat_edges(&self, axis: i64) -> Value {
        let (first, last) = (self.slice(axis, 0, 1), self.slice(axis, -1, END));
        first.concat(&[self, &last], axis)
    }

    /// Adds one sample at both ends of `axis`: the inner neighbor (reflect-101), or the sample itself if it is the
    /// only one. `Pad` refuses to reflect a single sample. A slice is clamped where the axis ends, so the result is the
    /// same.
    pub fn reflect_edges(&self, axis: i64) -> Value {
        let second = self.slice(axis, 0, 2).slice(axis, -1, END);
        let last_but_one = self.slice(axis, -2, END).slice(axis, 0, 1);
        second.concat(&[self, &last_but_one], axis)
    }

    /// Returns the sample before, the sample itself and the sample after, for an axis that is padded by one at both
    /// ends.
    pub fn neighbors(&self, axis: i64) -> [Value; 3] {
        [(0, -2), (1, -1), (2, END)].map(|(start, end)| self.slice(axis, start, end))
    }
}

fn declared(name: &str, kind: Kind, dims: &[Dim]) -> ValueInfoProto {
    let dim = dims.iter().map(|dim| match *dim {
        Dim::Is(size) => Dimension::fixed(size),
        Dim::Free(name) => Dimension::dynamic(name),
    });
    ValueInfoProto::new(name, kind as i32, dim.collect())
}
