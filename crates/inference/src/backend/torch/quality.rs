//! Blur, brightness, contrast and sharpness, as in [`facescan_imaging::quality::measure`].

use facescan_imaging::{border::reflect_101, luma::BT601, quality::FLAT_VARIANCE};
use tch::{Device, TchError, Tensor as Torch};

use super::{
    failure,
    process::{beside, length},
    session,
};
use crate::{
    backend::{BackendError, Batch, Session},
    tensor::{Port, Signature, Tensor},
};

/// Axes of `[N, 3, H, W]`.
const CHANNEL: i64 = 1;
const ROW: i64 = 2;
const COLUMN: i64 = 3;

/// The measures as a session of rows, for the engine.
#[derive(Clone)]
pub(super) struct Measures {
    device: Device,
    signature: Signature,
}

impl Measures {
    pub(super) fn new(device: Device) -> Self {
        let port = |name: &str, dims: &[Option<usize>]| Port {
            name: name.to_owned(),
            dims: dims.to_vec(),
            is_f32: true,
        };
        Self {
            device,
            signature: Signature {
                inputs: vec![port("images", &[None, Some(3), None, None])],
                outputs: vec![port("measures", &[None, Some(4)])],
            },
        }
    }
}

impl Session for Measures {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        let run = || {
            let measures = measure(&session::rows(batch, self.device)?)?;
            Ok(vec![session::read("measures".to_owned(), &measures)?])
        };
        tch::no_grad(run).map_err(|error: TchError| failure(&error))
    }
}

/// Returns the four measures `[N, 4]` of RGB images `[N, 3, H, W]` with samples in 0..=255.
pub(super) fn measure(images: &Torch) -> Result<Torch, TchError> {
    let shares = Torch::f_from_slice(&BT601)?
        .f_view([1, 3, 1, 1])?
        .f_to_device(images.device())?;
    let gray = images
        .f_mul(&shares)?
        .f_sum_dim_intlist(CHANNEL, true, None)?;
    let brightness = mean(&gray)?;
    // The following is invariant under a constant that is added to gray. Values around zero lose the least precision in
    // f32.
    let gray = gray.f_sub(&brightness)?;
    let contrast = mean_square(&gray)?.f_sqrt()?;

    let [above, here, below] = reflected(&gray, ROW)?;
    let [left, _, right] = reflected(&gray, COLUMN)?;
    let around = above.f_add(&below)?.f_add(&left)?.f_add(&right)?;
    let laplacian = around.f_sub(&here.f_mul_scalar(4.0)?)?;
    // The mean is small but not zero, and the variance is taken about it.
    let blur = mean_square(&laplacian.f_sub(&mean(&laplacian)?)?)?;

    let smooth = above.f_add(&below)?.f_add(&here.f_mul_scalar(2.0)?)?;
    let [left, _, right] = reflected(&smooth, COLUMN)?;
    let across = right.f_sub(&left)?;
    let [left, center, right] = reflected(&below.f_sub(&above)?, COLUMN)?;
    let down = left.f_add(&right)?.f_add(&center.f_mul_scalar(2.0)?)?;
    let gradient = across
        .f_mul(&across)?
        .f_add(&down.f_mul(&down)?)?
        .f_sqrt()?;

    let measures = [blur, brightness, contrast, mean(&gradient)?];
    Torch::f_cat(&measures, CHANNEL)?.f_view([-1, 4])
}

/// Returns the sample before, the sample itself and the sample after, along an axis, without repeating the edge.
fn reflected(a: &Torch, axis: i64) -> Result<[Torch; 3], TchError> {
    let length = length(a, axis)? as u32;
    beside(a, axis, |at| reflect_101(at, length) as i64)
}

/// Returns the mean of each image, `[N, 1, 1, 1]`.
fn mean(a: &Torch) -> Result<Torch, TchError> {
    a.f_mean_dim([ROW, COLUMN].as_slice(), true, None)
}

fn mean_square(a: &Torch) -> Result<Torch, TchError> {
    mean(&a.f_mul(a)?)?.f_sub_scalar(FLAT_VARIANCE)?.f_relu()
}
