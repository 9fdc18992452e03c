//! A model without the rest of the server. This is the only file of the benchmarks that uses the interface of the
//! backend.

use std::{num::NonZeroUsize, path::Path};

use anyhow::Context;
use image::RgbImage;

use facescan_imaging::tensor::{Letterbox, letterbox_into};
use facescan_inference::{
    backend::{Backend, Batch, Model, Opening, Session},
    placement::DevicePlacement,
    registry::ModelSpec,
};

/// A session with batches that are ready to run.
pub struct Bare {
    session: Box<dyn Session>,
    batches: Vec<Prepared>,
}

/// A batch of equal rows.
struct Prepared {
    row_shape: [usize; 3],
    data: Vec<f32>,
}

/// The position of an image in the input of a model.
pub type Placed<'a> = (&'a RgbImage, Letterbox);

impl Bare {
    /// Opens the model with the device placement that the server uses on the CPU. There is a batch of one row for each
    /// image.
    pub fn open(
        backend: &dyn Backend,
        (spec, placement): (&ModelSpec, DevicePlacement),
        models: &Path,
        images: &[Placed<'_>],
    ) -> anyhow::Result<Self> {
        // A graph with a fixed batch size needs all its rows.
        let rows = spec.batch.fixed().map_or(1, NonZeroUsize::get);
        let normalization = spec.input.normalization();
        let batches = images.iter().map(|(image, letterbox)| {
            let mut row = vec![0.0; letterbox.row_len()];
            letterbox_into(image, letterbox, &normalization, &mut row);
            let (width, height) = letterbox.input;
            Prepared {
                row_shape: [3, height as usize, width as usize],
                data: row.repeat(rows),
            }
        });
        let path = spec.path(models);
        let mut sessions = backend.open(&Opening {
            placement,
            ..Opening::on_cpu(Model::File(&path), NonZeroUsize::MIN, 1)
        })?;
        Ok(Self {
            session: sessions.pop().context("the backend opened no session")?,
            batches: batches.collect(),
        })
    }

    /// Runs the model once, on the batch of the image with this index.
    pub fn run(&mut self, index: usize) -> anyhow::Result<()> {
        let batch = self.batches.get(index).context("there is no such image")?;
        let batch = Batch::new(&batch.row_shape, &batch.data);
        self.session.run(batch)?;
        Ok(())
    }
}
