//! A model whose rows are aligned crops.

use std::{sync::Arc, time::Duration};

use image::RgbImage;

use facescan_imaging::tensor::{Normalization, fill_row};
use facescan_inference::{
    device::DeviceRun,
    engine::{Engine, Pending, RowOutput},
    registry::ModelSpec,
};

use super::loaded::LoadedModel;
use crate::core::{error::PipelineError, scan::Face, work};

/// A model that adds a result to a face. Its rows are aligned crops.
pub trait FaceModel: Send + Sync {
    /// Returns the model, which runs the rows.
    fn model(&self) -> &CropModel;

    /// Adds the result in `output` to the face.
    ///
    /// # Errors
    /// [`PipelineError::UnexpectedOutput`] if the output does not have the form that the registry declares.
    fn add(&self, output: &RowOutput, face: &mut Face) -> Result<(), PipelineError>;
}

/// Runs a model on aligned crops. Cheap to clone.
#[derive(Clone)]
pub struct CropModel {
    /// The entry of the registry.
    pub spec: Arc<ModelSpec>,
    engine: Engine,
    normalization: Normalization,
}

/// The outputs for some crops.
#[derive(Debug, Default)]
pub struct CropOutputs {
    /// One for each row, in order.
    pub rows: Vec<RowOutput>,
    /// The time that the first row waited for a session.
    pub queued: Duration,
    /// The device that ran the rows. `None` if there were no rows. If several devices ran them, this is the one that
    /// was not requested.
    pub run: Option<DeviceRun>,
}

impl CropModel {
    /// Creates a model for crops from a loaded one.
    pub fn new(LoadedModel { spec, engine, .. }: LoadedModel) -> Self {
        Self {
            normalization: spec.input.normalization(),
            spec,
            engine,
        }
    }

    /// Returns the engine that runs the rows.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the price of a row.
    pub(crate) fn work(&self) -> u64 {
        work::embed((self.spec.input.width, self.spec.input.height))
    }

    /// Writes a crop into a row and commits it. This is CPU work. `is_last` says that the job waits for the rows next.
    pub fn submit(&self, crop: &RgbImage, is_last: bool) -> Pending {
        let mut row = self.engine.claim(&self.spec.input.row_shape());
        fill_row(crop, &self.normalization, row.values());
        if is_last {
            row.commit_last()
        } else {
            row.commit()
        }
    }

    /// Waits for rows.
    pub async fn finish(&self, rows: Vec<Pending>) -> Result<CropOutputs, PipelineError> {
        let mut outputs = CropOutputs::default();
        for (index, pending) in rows.into_iter().enumerate() {
            let output = pending.await?;
            let run = output.run;
            outputs.run = Some(outputs.run.map_or(run, |first| first.or_fallback(run)));
            if index == 0 || output.queued < outputs.queued {
                outputs.queued = output.queued;
            }
            outputs.rows.push(output);
        }
        Ok(outputs)
    }
}
