//! Built-in graphs on libtorch, which does not read ONNX: each node becomes one of its calls.
//!
//! This has the operators of the [image operations](crate::graphs) and of the self-test graph. libtorch computes matrix
//! products in f32 unless the process allows less, which this one does not.

use std::collections::{HashMap, HashSet};

use tch::{Device, Kind, TchError, Tensor as Torch};

use super::{
    failure,
    session::{dims, read, rows, sizes},
};
use crate::{
    backend::{BackendError, Batch, Session},
    graphs::session::{GraphSession, Input, Output, Samples, Values},
    onnx::{self, GraphProto, NodeProto, TensorProto, ValueInfoProto, data_type},
    prepare::initializer::{self, Constant},
    tensor::{Port, Signature, Tensor},
};

/// A graph on a device.
pub(super) struct LoadedGraph {
    nodes: Vec<Node>,
    constants: HashMap<String, Torch>,
    device: Device,
    signature: Signature,
}

struct Node {
    call: Call,
    /// The names of the inputs that are tensors.
    inputs: Vec<String>,
    output: String,
    /// The values that no later node reads. Large images would not fit if they were kept.
    last_read: Vec<String>,
}

/// Returns the output of a node for its inputs.
type Call = Box<dyn Fn(&[&Torch]) -> Result<Torch, TchError> + Send>;

impl LoadedGraph {
    /// # Errors
    /// Returns an error if the bytes are not a model, or if the model has an operator that is not in [`Arguments::call`].
    pub(super) fn new(bytes: &[u8], device: Device) -> Result<Self, TchError> {
        let graph = onnx::decode(bytes).map_err(refused)?.graph;
        let graph = graph.unwrap_or_default();
        let mut constants = HashMap::new();
        let mut integers = HashMap::new();
        for constant in &graph.initializer {
            let name = constant.name().to_owned();
            if constant.data_type() == data_type::INT64 {
                integers.insert(name, initializer::integers(constant).map_err(refused)?);
            } else {
                constants.insert(name, tensor(constant, device)?);
            }
        }
        let mut nodes = Vec::with_capacity(graph.node.len());
        let mut read_later: HashSet<_> = graph.output.iter().map(|value| value.name()).collect();
        for node in graph.node.iter().rev() {
            let inputs = node.input.iter();
            let inputs = inputs.filter(|name| !integers.contains_key(*name));
            let last_read = inputs
                .clone()
                .filter(|name| read_later.insert(name.as_str()));
            nodes.push(Node {
                last_read: last_read.cloned().collect(),
                inputs: inputs.cloned().collect(),
                output: node.output.first().cloned().unwrap_or_default(),
                call: Arguments {
                    node,
                    integers: &integers,
                }
                .call()?,
            });
        }
        nodes.reverse();
        Ok(Self {
            nodes,
            constants,
            device,
            signature: signature(&graph),
        })
    }

    /// Returns the outputs, in the order of the signature.
    fn outputs<'a>(&'a self, mut values: HashMap<&'a str, Torch>) -> Result<Vec<Torch>, TchError> {
        for node in &self.nodes {
            let value = |name: &String| {
                let found = values
                    .get(name.as_str())
                    .or_else(|| self.constants.get(name));
                found.ok_or_else(|| missing(name))
            };
            let inputs: Vec<_> = node.inputs.iter().map(value).collect::<Result<_, _>>()?;
            let output = (node.call)(&inputs)?;
            for name in &node.last_read {
                values.remove(name.as_str());
            }
            values.insert(&node.output, output);
        }
        let outputs = self.signature.outputs.iter();
        outputs
            .map(|port| {
                values
                    .remove(port.name.as_str())
                    .ok_or_else(|| missing(&port.name))
            })
            .collect()
    }

    fn placed(&self, input: &Input<'_>) -> Result<Torch, TchError> {
        let values = match &input.values {
            Values::U8(values) => Torch::f_from_slice(values),
            Values::I32(values) => Torch::f_from_slice(values),
            Values::F32(values) => Torch::f_from_slice(values),
        }?;
        let shape = dims(&input.shape);
        values.f_view(shape.as_slice())?.f_to_device(self.device)
    }
}

impl GraphSession for LoadedGraph {
    fn run(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>, BackendError> {
        let run = || -> Result<_, TchError> {
            let inputs = inputs
                .iter()
                .map(|input| Ok((input.name, self.placed(input)?)));
            let outputs = self.outputs(inputs.collect::<Result<_, TchError>>()?)?;
            outputs.iter().map(copied).collect()
        };
        tch::no_grad(run).map_err(|error| failure(&error))
    }
}

impl Session for LoadedGraph {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        let run = || -> Result<_, TchError> {
            let names = self.signature.inputs.iter().map(|port| port.name.as_str());
            let rows = rows(batch, self.device)?;
            let outputs = self.outputs(names.zip([rows]).collect())?;
            let named = self.signature.outputs.iter().zip(&outputs);
            named
                .map(|(port, value)| read(port.name.clone(), value))
                .collect()
        };
        tch::no_grad(run).map_err(|error| failure(&error))
    }
}

/// What a call is made from, apart from tensors.
struct Arguments<'a> {
    node: &'a NodeProto,
    /// The constants of integers, which are axes and ends of slices.
    integers: &'a HashMap<String, Vec<i64>>,
}

impl Arguments<'_> {
    fn call(&self) -> Result<Call, TchError> {
        Ok(match self.node.op_type() {
            "Identity" => one(|a| Ok(a.shallow_clone())),
            "Floor" => one(Torch::f_floor),
            "Sqrt" => one(Torch::f_sqrt),
            "Relu" => one(Torch::f_relu),
            "Add" => two(Torch::f_add),
            "Sub" => two(Torch::f_sub),
            "Mul" => two(Torch::f_mul),
            "Div" => two(Torch::f_div),
            "MatMul" => two(Torch::f_matmul),
            "Clip" => three(|a, least, most| a.f_maximum(least)?.f_minimum(most)),
            // The self-test graph has the only one, without strides or padding.
            "Conv" => {
                three(|a, weights, bias| a.f_conv2d(weights, Some(bias), [1, 1], [0, 0], [1, 1], 1))
            }
            "Cast" => {
                let kind = kind(self.number("to"))?;
                one(move |a| a.f_to_kind(kind))
            }
            "ReduceSum" => {
                let axes = self.integers(1)?;
                one(move |a| a.f_sum_dim_intlist(axes.as_slice(), true, None))
            }
            "ReduceMean" => {
                let axes = self.numbers("axes");
                one(move |a| a.f_mean_dim(axes.as_slice(), true, None))
            }
            _ => return self.call_on_axes(),
        })
    }

    /// Returns the call of an operator that moves values or reads sizes.
    fn call_on_axes(&self) -> Result<Call, TchError> {
        Ok(match self.node.op_type() {
            "Gather" => {
                let axis = self.number("axis");
                two(move |a, indices| gather(a, indices, axis))
            }
            "Slice" => {
                let [start, end, axis] = [1, 2, 3].map(|input| self.integer(input));
                let (start, end, axis) = (start?, end?, axis?);
                one(move |a| a.f_slice(axis, start, end, 1))
            }
            "Concat" => {
                let axis = self.number("axis");
                Box::new(move |parts: &[&Torch]| Torch::f_cat(parts, axis))
            }
            "Transpose" => {
                let order = self.numbers("perm");
                one(move |a| a.f_permute(order.as_slice()))
            }
            "Unsqueeze" => {
                let axis = self.integer(1)?;
                one(move |a| a.f_unsqueeze(axis))
            }
            "Squeeze" => {
                let axes = self.integers(1)?;
                // The last axis goes first, so that the numbers of the others still hold.
                one(move |a| {
                    let mut axes = axes.iter().rev();
                    axes.try_fold(a.shallow_clone(), |a, axis| a.f_squeeze_dim(*axis))
                })
            }
            "Shape" => {
                let (start, end) = (self.number("start"), self.number("end"));
                let range = start as usize..end as usize;
                one(move |a| {
                    let sizes = a.size();
                    Torch::f_from_slice(sizes.get(range.clone()).unwrap_or_default())?
                        .f_to_device(a.device())
                })
            }
            other => return Err(refused(format!("the operator {other} is not supported"))),
        })
    }

    /// Returns an attribute that is a number.
    fn number(&self, name: &str) -> i64 {
        let mut attributes = self.node.attribute.iter();
        let found = attributes.find(|attribute| attribute.name() == name);
        found.map_or(0, |attribute| attribute.i())
    }

    /// Returns an attribute that is a list of numbers.
    fn numbers(&self, name: &str) -> Vec<i64> {
        let mut attributes = self.node.attribute.iter();
        let found = attributes.find(|attribute| attribute.name() == name);
        found.map_or_else(Vec::new, |attribute| attribute.ints.clone())
    }

    /// Returns an input that is a constant of integers.
    fn integers(&self, input: usize) -> Result<Vec<i64>, TchError> {
        let constant = self
            .node
            .input
            .get(input)
            .and_then(|name| self.integers.get(name));
        let op = self.node.op_type();
        constant
            .cloned()
            .ok_or_else(|| refused(format!("input {input} of {op} is not a constant")))
    }

    /// Returns an input that is a constant of one integer.
    fn integer(&self, input: usize) -> Result<i64, TchError> {
        Ok(self.integers(input)?.iter().sum())
    }
}

fn one(call: impl Fn(&Torch) -> Result<Torch, TchError> + Send + 'static) -> Call {
    Box::new(move |inputs| match inputs {
        [a] => call(a),
        _ => Err(refused(format!("{} inputs instead of 1", inputs.len()))),
    })
}

fn two(call: impl Fn(&Torch, &Torch) -> Result<Torch, TchError> + Send + 'static) -> Call {
    Box::new(move |inputs| match inputs {
        [a, b] => call(a, b),
        _ => Err(refused(format!("{} inputs instead of 2", inputs.len()))),
    })
}

fn three(
    call: impl Fn(&Torch, &Torch, &Torch) -> Result<Torch, TchError> + Send + 'static,
) -> Call {
    Box::new(move |inputs| match inputs {
        [a, b, c] => call(a, b, c),
        _ => Err(refused(format!("{} inputs instead of 3", inputs.len()))),
    })
}

/// Returns the elements of `axis` at `indices`, whose axes replace it.
fn gather(a: &Torch, indices: &Torch, axis: i64) -> Result<Torch, TchError> {
    let mut shape = a.size();
    let at = axis as usize;
    shape.splice(at..=at, indices.size());
    let flat = indices.f_reshape([-1])?;
    a.f_index_select(axis, &flat)?.f_reshape(shape.as_slice())
}

/// Returns libtorch's type of elements for ONNX's.
fn kind(number: i64) -> Result<Kind, TchError> {
    match i32::try_from(number).unwrap_or_default() {
        data_type::FLOAT => Ok(Kind::Float),
        data_type::UINT8 => Ok(Kind::Uint8),
        data_type::INT32 => Ok(Kind::Int),
        other => Err(refused(format!(
            "elements of type {other} are not supported"
        ))),
    }
}

fn tensor(constant: &TensorProto, device: Device) -> Result<Torch, TchError> {
    let Constant {
        dims: shape,
        values,
    } = Constant::read(constant).map_err(refused)?;
    let values = Torch::f_from_slice(&values)?;
    values.f_view(dims(&shape).as_slice())?.f_to_device(device)
}

fn copied(output: &Torch) -> Result<Output, TchError> {
    let output = output.f_to_device(Device::Cpu)?.f_contiguous()?;
    let count = output.numel();
    let samples = if output.f_kind()? == Kind::Uint8 {
        let mut samples = vec![0; count];
        output.f_copy_data(&mut samples, count)?;
        Samples::U8(samples)
    } else {
        let mut samples = vec![0.0; count];
        output.f_copy_data(&mut samples, count)?;
        Samples::F32(samples)
    };
    Ok(Output {
        shape: sizes(&output),
        samples,
    })
}

fn signature(graph: &GraphProto) -> Signature {
    let ports = |values: &[ValueInfoProto]| values.iter().map(port).collect();
    Signature {
        inputs: ports(&graph.input),
        outputs: ports(&graph.output),
    }
}

fn port(value: &ValueInfoProto) -> Port {
    let tensor = value
        .r#type
        .as_ref()
        .and_then(|kind| kind.tensor_type.as_ref());
    let shape = tensor.and_then(|tensor| tensor.shape.as_ref());
    let dims = shape.iter().flat_map(|shape| &shape.dim);
    Port {
        name: value.name().to_owned(),
        dims: dims
            .map(|dim| usize::try_from(dim.dim_value?).ok())
            .collect(),
        is_f32: tensor.is_some_and(|tensor| tensor.elem_type() == data_type::FLOAT),
    }
}

fn missing(name: &str) -> TchError {
    TchError::Convert(format!("the input {name} is missing"))
}

fn refused(reason: impl ToString) -> TchError {
    TchError::FileFormat(reason.to_string())
}
