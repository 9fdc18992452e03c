//! A session of OpenVINO: rows in, tensors out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openvino::{CompiledModel, ElementType, InferRequest, InferenceError, Node, Shape};

use super::{
    Compiler,
    compiled_shapes::{Choice, CompiledShapes},
    dims, message,
};
use crate::{
    backend::{BackendError, Batch, Session, run_failure},
    tensor::{Port, Signature, Tensor},
};

/// A model that several sessions run at the same time. They share its weights.
struct SharedModel {
    compiler: Compiler,
    signature: Signature,
    compiled: Mutex<Compiled>,
}

struct Compiled {
    /// The model for every shape. It is compiled when it is first needed.
    any_shape: Option<CompiledModel>,
    one_shape: CompiledShapes<CompiledModel>,
}

/// A session: the memory of the inputs and outputs for each compiled model.
struct Loaded {
    model: Arc<SharedModel>,
    requests: Vec<(ModelId, InferRequest)>,
}

/// The id of the model for one shape. `None` is the model for every shape.
type ModelId = Option<u64>;

/// Returns `count` sessions of one model.
pub(super) fn open(
    compiler: Compiler,
    count: usize,
) -> Result<Vec<Box<dyn Session>>, InferenceError> {
    let model = compiler.read()?;
    let signature = signature(&model)?;
    let mut compiled = Compiled {
        any_shape: None,
        one_shape: CompiledShapes::new(),
    };
    match only_row(&signature) {
        Some(shape) => {
            let model = compiler.compile(model, Some(&shape))?;
            compiled.one_shape.insert(shape, model);
        }
        None => compiled.any_shape = Some(compiler.compile(model, None)?),
    }
    let model = Arc::new(SharedModel {
        compiler,
        signature,
        compiled: Mutex::new(compiled),
    });
    let session = || Loaded {
        model: Arc::clone(&model),
        requests: Vec::new(),
    };
    Ok((0..count)
        .map(|_| Box::new(session()) as Box<dyn Session>)
        .collect())
}

impl SharedModel {
    fn compiled(&self) -> MutexGuard<'_, Compiled> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a run with `shape`, and returns the id of the model that runs it.
    fn model_for(&self, shape: &[usize]) -> Result<ModelId, InferenceError> {
        let choice = self.compiled().one_shape.choose(shape);
        match choice {
            Choice::Compiled(id) => Ok(Some(id)),
            Choice::AnyShape => Ok(None),
            Choice::Compile => {
                // Without the lock, so that other sessions run meanwhile.
                let model = self.compiler.read();
                let model = model.and_then(|model| self.compiler.compile(model, Some(shape)));
                let shapes = &mut self.compiled().one_shape;
                match model {
                    Ok(model) => Ok(Some(shapes.insert(shape.to_vec(), model))),
                    Err(error) => {
                        shapes.give_up(shape);
                        Err(error)
                    }
                }
            }
        }
    }

    /// Creates a request. Returns `None` if another shape has replaced the model.
    fn request(&self, id: ModelId) -> Result<Option<InferRequest>, InferenceError> {
        let mut compiled = self.compiled();
        let model = match id {
            Some(id) => compiled.one_shape.get_mut(id),
            None => {
                if compiled.any_shape.is_none() {
                    let model = self.compiler.read()?;
                    compiled.any_shape = Some(self.compiler.compile(model, None)?);
                }
                compiled.any_shape.as_mut()
            }
        };
        model.map(CompiledModel::create_infer_request).transpose()
    }
}

impl Loaded {
    /// Returns the request that runs `shape`.
    fn request_for(
        &mut self,
        shape: &[usize],
    ) -> Result<(ModelId, &mut InferRequest), InferenceError> {
        let mut id = self.model.model_for(shape)?;
        let index = match self.index_of(id) {
            Some(index) => index,
            None => {
                let mut request = self.model.request(id)?;
                if request.is_none() {
                    id = None;
                    request = self.model.request(id)?;
                }
                self.forget_replaced();
                self.requests.extend(request.map(|request| (id, request)));
                self.requests.len() - 1
            }
        };
        Ok((id, &mut self.requests[index].1))
    }

    fn index_of(&self, id: ModelId) -> Option<usize> {
        self.requests.iter().position(|(known, _)| *known == id)
    }

    /// Drops the requests of models that other shapes have replaced.
    fn forget_replaced(&mut self) {
        let mut compiled = self.model.compiled();
        self.requests
            .retain(|(id, _)| id.is_none_or(|id| compiled.one_shape.get_mut(id).is_some()));
    }

    fn outputs(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, InferenceError> {
        let shape = batch.shape();
        let model = Arc::clone(&self.model);
        let (id, request) = self.request_for(&shape)?;
        if id.is_some() {
            let mut input = request.get_input_tensor()?;
            input.get_data_mut()?.copy_from_slice(batch.data);
        } else {
            let mut input = openvino::Tensor::new(ElementType::F32, &Shape::new(&dims(&shape))?)?;
            input.get_data_mut()?.copy_from_slice(batch.data);
            request.set_input_tensor(&input)?;
        }
        request.infer()?;
        let outputs = model.signature.outputs.iter().enumerate();
        outputs
            // Encoders may have outputs of other types, which are not read.
            .filter(|(_, port)| port.is_f32)
            .map(|(index, port)| {
                let tensor = request.get_output_tensor_by_index(index)?;
                Ok(Tensor {
                    name: port.name.clone(),
                    shape: shape_of(&tensor)?,
                    data: tensor.get_data::<f32>()?.to_vec(),
                })
            })
            .collect()
    }
}

impl Session for Loaded {
    fn signature(&self) -> &Signature {
        &self.model.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        self.outputs(batch)
            .map_err(|error| run_failure(message(&error)))
    }
}

/// Returns the shape of a single row, if the model accepts no other size of rows.
fn only_row(signature: &Signature) -> Option<Vec<usize>> {
    let (rows, row) = signature.inputs.first()?.dims.split_first()?;
    std::iter::once(Some(rows.unwrap_or(1)))
        .chain(row.iter().copied())
        .collect()
}

fn signature(model: &openvino::Model) -> Result<Signature, InferenceError> {
    let inputs = 0..model.get_inputs_len()?;
    let outputs = 0..model.get_outputs_len()?;
    Ok(Signature {
        inputs: inputs
            .map(|index| port(&model.get_input_by_index(index)?))
            .collect::<Result<_, _>>()?,
        outputs: outputs
            .map(|index| port(&model.get_output_by_index(index)?))
            .collect::<Result<_, _>>()?,
    })
}

fn port(node: &Node) -> Result<Port, InferenceError> {
    let shape = node.get_partial_shape()?;
    let dims = shape.get_dimensions().iter();
    Ok(Port {
        name: node.get_name()?,
        dims: dims
            .map(|dim| match (dim.get_min(), dim.get_max()) {
                (min, max) if min == max => usize::try_from(min).ok(),
                _ => None,
            })
            .collect(),
        is_f32: node.get_element_type()? == ElementType::F32,
    })
}

/// Returns the dimensions of a tensor.
pub(super) fn shape_of(tensor: &openvino::Tensor) -> Result<Vec<usize>, InferenceError> {
    let shape = tensor.get_shape()?;
    let dims = shape.get_dimensions().iter();
    Ok(dims.map(|&dim| usize::try_from(dim).unwrap_or(0)).collect())
}
