//! The pictures' operations as tensor code: what the graphs of [`crate::graphs`] compute, from the same
//! inputs.
//!
//! Where the CPU computes in whole numbers, so does this, with libtorch's 32 and 64 bit integers: the same bytes on
//! every device.

use std::collections::HashMap;

use tch::{Device, Kind, TchError, Tensor as Torch};

use super::{
    enhance, failure, process, quality,
    session::{dims, sizes},
};
use crate::{
    backend::BackendError,
    graphs::{
        enhance::Steps,
        process::Rounding,
        session::{GraphModel, GraphSession, Input, Output, Samples, Values},
    },
};

/// One of the operations, each with the inputs and the output of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// [`crate::graphs::quality::graph`]: pictures `[N, 3, H, W]` to measures `[N, 4]`.
    Quality,
    /// [`crate::graphs::enhance::graph`]: a picture `[H, W, 3]` to an enlarged one.
    Enhance(Steps),
    /// [`crate::graphs::process::bilinear_point`]: a picture `[H, W, 3]` to `[1, 3, h, w]`.
    BilinearPoint,
    /// [`crate::graphs::process::bilinear`]: a picture `[H, W, 3]` to `[1, 3, h, w]`.
    Bilinear(Rounding),
    /// [`crate::graphs::process::blur`]: a picture `[H, W, 3]` to a region's tiles `[m, t, n, t, 3]`.
    Blur,
}

impl Code {
    /// What computes the same as a graph, which its name tells.
    pub(super) fn of(graph: &GraphModel) -> Option<Self> {
        Some(match graph.name {
            "quality" => Self::Quality,
            "bilinear_point" => Self::BilinearPoint,
            "gaussian_blur" => Self::Blur,
            "bilinear_jax" => Self::Bilinear(Rounding::None),
            "bilinear_torchvision" => Self::Bilinear(Rounding::Once),
            "bilinear_pil" => Self::Bilinear(Rounding::EachPass),
            name => Steps::ALL
                .into_iter()
                .find(|steps| steps.graph_name() == name)
                .map(Self::Enhance)?,
        })
    }
}

/// An operation on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorCode {
    code: Code,
    device: Device,
}

impl TensorCode {
    pub(super) fn new(code: Code, device: Device) -> Self {
        Self { code, device }
    }

    fn output(&self, inputs: &[Input<'_>]) -> Result<Output, TchError> {
        let given = Given::new(inputs, self.device)?;
        let output = match self.code {
            Code::Quality => quality::measure(given.get("pictures")?),
            Code::Enhance(steps) => enhance::enhance(&given, steps),
            Code::BilinearPoint => process::bilinear_point(&given),
            Code::Blur => process::blur(&given),
            Code::Bilinear(rounding) => process::bilinear(&given, rounding),
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

    /// # Errors
    /// When there is none of that name.
    pub(super) fn get(&self, name: &str) -> Result<&Torch, TchError> {
        self.0
            .get(name)
            .ok_or_else(|| TchError::Convert(format!("the input {name} is missing")))
    }

    /// Whole numbers that came as floats.
    ///
    /// # Errors
    /// When there is none of that name.
    pub(super) fn integers(&self, name: &str) -> Result<Torch, TchError> {
        self.get(name)?.f_to_kind(Kind::Int)
    }
}

#[cfg(test)]
mod tests;
