//! Built-in graphs on OpenVINO.

use openvino::{CompiledModel, ElementType, InferRequest, InferenceError, Shape, Tensor};

use super::{Compiler, dims, message, session::shape_of};
use crate::{
    backend::{BackendError, run_failure},
    graphs::session::{GraphSession, Input, Output, Samples, Values},
};

/// A built-in graph that is compiled for every shape of its inputs.
pub(super) struct OpenvinoGraph {
    request: InferRequest,
    model: CompiledModel,
    /// The inputs that the compiled model has. Those that cannot change its outputs are removed.
    inputs: Vec<String>,
}

impl OpenvinoGraph {
    pub(super) fn new(compiler: &Compiler) -> Result<Self, InferenceError> {
        let mut model = compiler.compile(compiler.read()?, None)?;
        let inputs = 0..model.get_input_size()?;
        Ok(Self {
            request: model.create_infer_request()?,
            inputs: inputs
                .map(|index| model.get_input_by_index(index)?.get_name())
                .collect::<Result<_, _>>()?,
            model,
        })
    }

    fn outputs(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>, InferenceError> {
        let kept = |input: &&Input<'_>| self.inputs.iter().any(|name| name == input.name);
        for input in inputs.iter().filter(kept) {
            self.request.set_tensor(input.name, &tensor(input)?)?;
        }
        self.request.infer()?;
        (0..self.model.get_output_size()?)
            .map(|index| {
                let tensor = self.request.get_output_tensor_by_index(index)?;
                let samples = if tensor.get_element_type()? == ElementType::U8 {
                    Samples::U8(tensor.get_raw_data()?.to_vec())
                } else {
                    Samples::F32(tensor.get_data()?.to_vec())
                };
                Ok(Output {
                    shape: shape_of(&tensor)?,
                    samples,
                })
            })
            .collect()
    }
}

impl GraphSession for OpenvinoGraph {
    fn run(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>, BackendError> {
        let is_given = |name: &&String| inputs.iter().any(|input| input.name == **name);
        if let Some(missing) = self.inputs.iter().find(|name| !is_given(name)) {
            // OpenVINO would read whatever its own tensor of the input holds.
            return Err(BackendError::run(format!("the input {missing} is missing")));
        }
        self.outputs(inputs)
            .map_err(|error| run_failure(message(&error)))
    }
}

fn tensor(input: &Input<'_>) -> Result<Tensor, InferenceError> {
    let shape = Shape::new(&dims(&input.shape))?;
    let (kind, bytes): (_, &[u8]) = match &input.values {
        Values::U8(values) => (ElementType::U8, values),
        Values::I32(values) => (ElementType::I32, bytemuck::cast_slice(values)),
        Values::F32(values) => (ElementType::F32, bytemuck::cast_slice(values)),
    };
    let mut tensor = Tensor::new(kind, &shape)?;
    tensor.get_raw_data_mut()?.copy_from_slice(bytes);
    Ok(tensor)
}
