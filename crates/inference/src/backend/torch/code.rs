//! The image operations as tensor code. They compute the same as the graphs of [`crate::graphs`], from the same inputs.
//!
//! Where the CPU computes with integers, this code does so too, with libtorch's 32 and 64 bit integers. The bytes are
//! the same on every device.

use std::collections::HashMap;

use tch::{Device, Kind, TchError, Tensor as Torch};

use super::{
    enhance, failure, process, quality,
    session::{dims, sizes},
};
use crate::{
    backend::BackendError,
    graphs::{
        ImageGraph,
        session::{GraphSession, Input, Output, Samples, Values},
    },
};

/// An operation on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorCode {
    code: ImageGraph,
    device: Device,
}

impl TensorCode {
    pub(super) fn new(code: ImageGraph, device: Device) -> Self {
        Self { code, device }
    }

    fn output(&self, inputs: &[Input<'_>]) -> Result<Output, TchError> {
        let given = Given::new(inputs, self.device)?;
        let output = match self.code {
            ImageGraph::Quality => quality::measure(given.get("images")?),
            ImageGraph::Enhance(steps) => enhance::enhance(&given, steps),
            ImageGraph::BilinearTwoTap => process::bilinear_two_tap(&given),
            ImageGraph::Blur => process::blur(&given),
            ImageGraph::Bilinear(rounding) => process::bilinear(&given, rounding),
        }?;
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
}

impl GraphSession for TensorCode {
    fn run(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Output>, BackendError> {
        tch::no_grad(|| self.output(inputs))
            .map(|output| vec![output])
            .map_err(|error| failure(&error))
    }
}

/// The inputs of a run, on the device.
pub(super) struct Given(HashMap<&'static str, Torch>);

impl Given {
    fn new(inputs: &[Input<'_>], device: Device) -> Result<Self, TchError> {
        let placed = |input: &Input<'_>| -> Result<Torch, TchError> {
            let values = match &input.values {
                Values::U8(values) => Torch::f_from_slice(values),
                Values::I32(values) => Torch::f_from_slice(values),
                Values::F32(values) => Torch::f_from_slice(values),
            }?;
            let shape = dims(&input.shape);
            values.f_view(shape.as_slice())?.f_to_device(device)
        };
        let named = |input: &Input<'_>| -> Result<_, TchError> { Ok((input.name, placed(input)?)) };
        Ok(Self(
            inputs.iter().map(named).collect::<Result<_, TchError>>()?,
        ))
    }

    /// Returns the input of this name.
    ///
    /// # Errors
    /// Returns an error if there is no input of that name.
    pub(super) fn get(&self, name: &str) -> Result<&Torch, TchError> {
        self.0
            .get(name)
            .ok_or_else(|| TchError::Convert(format!("the input {name} is missing")))
    }

    /// Returns an input of integers that are passed as floats.
    ///
    /// # Errors
    /// Returns an error if there is no input of that name.
    pub(super) fn integers(&self, name: &str) -> Result<Torch, TchError> {
        self.get(name)?.f_to_kind(Kind::Int)
    }
}

#[cfg(test)]
mod tests;
