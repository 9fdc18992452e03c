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

/// A session with a batch that is ready to run.
pub struct Bare {
    session: Box<dyn Session>,
    row_shape: [usize; 3],
    data: Vec<f32>,
}

impl Bare {
    /// Opens the model with the device placement that the server uses on the CPU. The batch has one row, `image` at
    /// `side` × `side`.
    ///
    /// # Errors
    /// Returns an error if the model cannot be loaded.
    pub fn open(
        backend: &dyn Backend,
        (spec, placement): (&ModelSpec, DevicePlacement),
        models: &Path,
        image: &RgbImage,
        side: u32,
    ) -> anyhow::Result<Self> {
        let width = side as usize;
        let letterbox = Letterbox::fit(image.dimensions(), (side, side));
        let mut row = vec![0.0; letterbox.row_len()];
        letterbox_into(image, &letterbox, &spec.input.normalisation(), &mut row);
        // A graph with a fixed batch size needs all its rows.
        let rows = spec.batch.fixed().map_or(1, NonZeroUsize::get);
        let path = spec.path(models);
        let mut sessions = backend.open(&Opening {
            placement,
            ..Opening::on_cpu(Model::File(&path), NonZeroUsize::MIN, 1)
        })?;
        Ok(Self {
            session: sessions.pop().context("the backend opened no session")?,
            row_shape: [3, width, width],
            data: row.repeat(rows),
        })
    }

    /// Runs the model once.
    ///
    /// # Errors
    /// Returns an error if the run fails.
    pub fn run(&mut self) -> anyhow::Result<()> {
        self.session.run(Batch {
            row_shape: &self.row_shape,
            data: &self.data,
            frees_memory: false,
        })?;
        Ok(())
    }
}
