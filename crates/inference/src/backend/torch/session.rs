//! A session of libtorch: rows in, tensors out.

use std::sync::Arc;

use tch::{CModule, Device, IValue, Kind, TchError, Tensor as Torch};

use super::failure;
use crate::{
    backend::{BackendError, Batch, Session},
    tensor::{Signature, Tensor},
};

/// A TorchScript program that `scripts/torchscript` made.
#[derive(Clone)]
pub(super) struct Loaded {
    module: Arc<CModule>,
    device: Device,
    signature: Signature,
}

impl Loaded {
    pub(super) fn new(module: Arc<CModule>, device: Device) -> Result<Self, TchError> {
        let unreadable =
            |detail: String| TchError::FileFormat(format!("its method signature: {detail}"));
        let declared = match module.method_is::<IValue>("signature", &[])? {
            IValue::String(text) => text,
            other => return Err(unreadable(format!("gives {other:?}"))),
        };
        let signature =
            serde_json::from_str(&declared).map_err(|error| unreadable(error.to_string()))?;
        Ok(Self {
            module,
            device,
            signature,
        })
    }

    fn outputs(&self, batch: Batch<'_>) -> Result<Vec<Tensor>, TchError> {
        let mut input = rows(batch, self.device)?;
        if self.device == Device::Cpu {
            input = channels_last(&input)?;
        }
        let values = match self.module.forward_is(&[IValue::Tensor(input)])? {
            IValue::Tuple(values) => values,
            other => vec![other],
        };
        self.signature
            .outputs
            .iter()
            .zip(values)
            .map(|(port, value)| match value {
                IValue::Tensor(value) => read(port.name.clone(), &value),
                other => Err(TchError::Kind(format!("output {} is {other:?}", port.name))),
            })
            .collect()
    }
}

impl Session for Loaded {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        tch::no_grad(|| self.outputs(batch)).map_err(|error| failure(&error))
    }
}

/// Returns a batch as a tensor on a device. libtorch copies the values, because a tensor that borrows them cannot be
/// made safely.
pub(super) fn rows(batch: Batch<'_>, device: Device) -> Result<Torch, TchError> {
    let shape = dims(&batch.shape());
    Torch::f_from_slice(batch.data)?
        .f_view(shape.as_slice())?
        .f_to_device(device)
}

/// Returns the same values `[N, C, H, W]` with a pixel's channels adjacent in memory. The CPU's convolutions run the
/// default detector three times as fast on this layout.
fn channels_last(rows: &Torch) -> Result<Torch, TchError> {
    if rows.dim() != 4 {
        return Ok(rows.shallow_clone());
    }
    rows.f_permute([0, 2, 3, 1])?
        .f_contiguous()?
        .f_permute([0, 3, 1, 2])
}

/// Returns the values of a tensor of floats.
pub(super) fn read(name: String, tensor: &Torch) -> Result<Tensor, TchError> {
    let tensor = tensor
        .f_to_device(Device::Cpu)?
        .f_to_kind(Kind::Float)?
        .f_contiguous()?;
    let mut data = vec![0.0; tensor.numel()];
    tensor.f_copy_data(&mut data, tensor.numel())?;
    Ok(Tensor {
        name,
        shape: sizes(&tensor),
        data,
    })
}

/// Dimensions in libtorch's type.
pub(super) fn dims(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&dim| dim as i64).collect()
}

/// Returns the dimensions of a tensor.
pub(super) fn sizes(tensor: &Torch) -> Vec<usize> {
    let sizes = tensor.size().into_iter();
    sizes.map(|dim| usize::try_from(dim).unwrap_or(0)).collect()
}
