//! The small ONNX graph of the self-test as tensor code: convolutions and ReLUs, one after the other.

use tch::{Device, TchError, Tensor as Torch};

use super::{failure, session};
use crate::{
    backend::{BackendError, Batch, Session},
    onnx::{self, GraphProto, NodeProto},
    tensor::{Port, Signature, Tensor},
};

/// The self-test graph on a device.
#[derive(Clone)]
pub(super) struct SelfTestGraph {
    steps: Vec<Step>,
    device: Device,
    signature: Signature,
}

enum Step {
    Convolution { weights: Torch, bias: Torch },
    Relu,
}

impl Clone for Step {
    /// The weights are shared.
    fn clone(&self) -> Self {
        match self {
            Self::Convolution { weights, bias } => Self::Convolution {
                weights: weights.shallow_clone(),
                bias: bias.shallow_clone(),
            },
            Self::Relu => Self::Relu,
        }
    }
}

impl SelfTestGraph {
    pub(super) fn new(bytes: &[u8], device: Device) -> Result<Self, TchError> {
        let refused = |detail: String| TchError::FileFormat(detail);
        let graph = onnx::decode(bytes)
            .map_err(|error| refused(error.to_string()))?
            .graph
            .ok_or_else(|| refused("it has no graph".to_owned()))?;
        let steps = graph
            .node
            .iter()
            .map(|node| Step::new(node, &graph, device))
            .collect::<Result<_, _>>()?;
        let port = |name: Option<&String>| Port {
            name: name.cloned().unwrap_or_default(),
            dims: vec![None; 4],
            is_f32: true,
        };
        Ok(Self {
            steps,
            device,
            signature: Signature {
                inputs: vec![port(
                    graph.input.first().and_then(|value| value.name.as_ref()),
                )],
                outputs: vec![port(
                    graph.output.first().and_then(|value| value.name.as_ref()),
                )],
            },
        })
    }

    fn outputs(&self, batch: Batch<'_>) -> Result<Vec<Tensor>, TchError> {
        let mut value = session::rows(batch, self.device)?;
        for step in &self.steps {
            value = match step {
                Step::Convolution { weights, bias } => {
                    value.f_conv2d(weights, Some(bias), [1, 1], [0, 0], [1, 1], 1)?
                }
                Step::Relu => value.f_relu()?,
            };
        }
        let name = |port: &Port| port.name.clone();
        let name = self.signature.outputs.first().map(name).unwrap_or_default();
        Ok(vec![session::read(name, &value)?])
    }
}

impl Step {
    fn new(node: &NodeProto, graph: &GraphProto, device: Device) -> Result<Self, TchError> {
        match (node.op_type.as_deref(), node.input.as_slice()) {
            (Some("Conv"), [_, weights, bias]) => Ok(Self::Convolution {
                weights: constant(graph, weights, device)?,
                bias: constant(graph, bias, device)?,
            }),
            (Some("Relu"), _) => Ok(Self::Relu),
            (other, _) => Err(TchError::FileFormat(format!(
                "{} of a graph in memory is not for libtorch, which has tensor code instead",
                other.unwrap_or("an operator")
            ))),
        }
    }
}

fn constant(graph: &GraphProto, name: &str, device: Device) -> Result<Torch, TchError> {
    let found = graph
        .initializer
        .iter()
        .find(|constant| constant.name.as_deref() == Some(name))
        .ok_or_else(|| TchError::FileFormat(format!("{name} is not a constant")))?;
    Torch::f_from_slice(&found.float_data)?
        .f_view(found.dims.as_slice())?
        .f_to_device(device)
}

impl Session for SelfTestGraph {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        tch::no_grad(|| self.outputs(batch)).map_err(|error| failure(&error))
    }
}
