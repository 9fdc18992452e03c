//! Built-in graphs on ONNX Runtime.

use std::{borrow::Cow, collections::BTreeMap};

use ort::{
    session::{Session as OrtSession, SessionInputValue},
    value::{DynValue, TensorElementType, TensorRef},
};

use super::assignment;
use crate::{
    backend::{BackendError, run_failure},
    graphs::session::{GraphSession, Input, Output, Samples, Values},
};

/// A built-in graph in a session of any provider.
pub(super) struct OrtGraph {
    session: OrtSession,
}

impl OrtGraph {
    pub(super) fn new(session: OrtSession) -> Self {
        Self { session }
    }
}

impl GraphSession for OrtGraph {
    fn run(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>, BackendError> {
        self.outputs(inputs)
            .map_err(|error| run_failure(error.message().to_owned()))
    }

    fn assignment(&self) -> BTreeMap<String, usize> {
        assignment::of(&self.session)
    }
}

impl OrtGraph {
    fn outputs(&mut self, inputs: &[Input<'_>]) -> ort::Result<Vec<Output>> {
        let inputs = inputs
            .iter()
            .map(|input| Ok((Cow::Borrowed(input.name), view(input)?)))
            .collect::<ort::Result<Vec<_>>>()?;
        let outputs = self.session.run(inputs)?;
        outputs.values().map(|value| copied(&value)).collect()
    }
}

fn view<'a>(input: &'a Input<'_>) -> ort::Result<SessionInputValue<'a>> {
    let shape = input.shape.as_slice();
    Ok(match &input.values {
        Values::U8(values) => TensorRef::from_array_view((shape, &**values))?.into(),
        Values::I32(values) => TensorRef::from_array_view((shape, &**values))?.into(),
        Values::F32(values) => TensorRef::from_array_view((shape, &**values))?.into(),
    })
}

fn copied(value: &DynValue) -> ort::Result<Output> {
    let bytes = value.dtype().tensor_type() == Some(TensorElementType::Uint8);
    let (shape, samples) = if bytes {
        let (shape, data) = value.try_extract_tensor::<u8>()?;
        (shape, Samples::U8(data.to_vec()))
    } else {
        let (shape, data) = value.try_extract_tensor::<f32>()?;
        (shape, Samples::F32(data.to_vec()))
    };
    let shape = shape.iter().map(|&dim| usize::try_from(dim).unwrap_or(0));
    Ok(Output {
        shape: shape.collect(),
        samples,
    })
}
