//! The same measures on the CPU, for rows that run on no device.

use image::RgbImage;

use crate::{
    backend::{BackendError, Batch, Session},
    tensor::{Signature, Tensor},
};
use facescan_imaging::quality::measure;

/// Measures rows `[3, H, W]` of RGB samples, 0..=255, with [`measure`]: blur score, brightness, contrast, sharpness.
#[derive(Default)]
pub struct OnCpu {
    signature: Signature,
}

impl Session for OnCpu {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        let &[3, height, width] = batch.row_shape else {
            return Err(BackendError::run(format!(
                "rows of {:?} are not images",
                batch.row_shape
            )));
        };
        let measured = batch.data.chunks_exact(batch.row_len().max(1)).map(|row| {
            let plane = height * width;
            let image = RgbImage::from_fn(width as u32, height as u32, |x, y| {
                let at = y as usize * width + x as usize;
                image::Rgb([0, 1, 2].map(|channel| row[channel * plane + at] as u8))
            });
            let measures = measure(&image);
            [
                measures.blur_score,
                measures.brightness,
                measures.contrast,
                measures.sharpness,
            ]
        });
        let data: Vec<f32> = measured.flatten().collect();
        Ok(vec![Tensor {
            name: "measures".to_owned(),
            shape: vec![batch.rows(), 4],
            data,
        }])
    }
}
