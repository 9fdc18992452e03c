//! The models and graphs of every operation, loaded and on their devices.

use std::sync::Arc;

use anyhow::Context;
use facescan_imaging::tensor::Normalisation;
use facescan_inference::{
    device::{Assignment, Devices},
    image_executor::{self, ImageExecutor},
    operation::Operation,
};

use super::models::{Connected, Loaded, Loader};
use crate::{
    config::Config,
    pipeline::{
        detect::Detector, embed::Embedder, encode::Encoder, enhance::Finishing,
        preprocess::Preprocessing, process, quality::Grader,
    },
};

/// What the pipeline runs images through.
pub(super) struct ModelSet {
    pub detector: Detector,
    pub embedder: Embedder,
    /// `None` where the settings name no model for whole images.
    pub encoder: Option<Encoder>,
    /// `None` where quality is measured on the CPU.
    pub grader: Option<Grader>,
    pub processing: ImageExecutor,
    pub enhancing: ImageExecutor,
    pub preprocessing: Preprocessing,
    pub devices: Devices,
}

impl ModelSet {
    /// Loads what the settings name. `connected` is the encoder's server, where it has one.
    ///
    /// # Errors
    /// A model that is missing or does not fit its registry entry, or a device that is required and is not there.
    pub async fn load(loader: Loader<'_>, connected: Option<Connected>) -> anyhow::Result<Self> {
        let (config, clock) = (loader.config, Arc::clone(loader.clock));
        let models = Models::load(&loader, connected)?;
        let graphs = Graphs::load(&loader, &models.detection.spec.input.normalisation())?;
        let tried = loader.into_tried();

        let mut assignments = models.assignments();
        assignments.extend(graphs.assignments);
        let mut preprocessing = graphs.preprocessing;
        if config.preprocess.warm_up {
            preprocessing.warm_up(clock.as_ref()).await;
        }
        let warmed = (
            Arc::clone(&preprocessing.assignment),
            preprocessing.warm_up_ms,
        );
        let devices = Devices::new(assignments, warmed, tried, clock);
        devices.announce();

        let Loaded { spec, engine, .. } = models.detection;
        let detector = Detector::new(spec, engine).context("the detector has no known head")?;
        check_detection_sizes(&detector, config)?;
        let Loaded { spec, engine, .. } = models.embedding;
        Ok(Self {
            detector,
            embedder: Embedder::new(spec, engine, config.batching.cpu_batch_size.get()),
            encoder: models
                .encoding
                .map(|loaded| Encoder::new(loaded.spec, loaded.engine)),
            grader: graphs.grader,
            processing: graphs.processing,
            enhancing: graphs.enhancing,
            preprocessing,
            devices,
        })
    }
}

/// The models that have a file or a server.
struct Models {
    detection: Loaded,
    embedding: Loaded,
    encoding: Option<Loaded>,
}

impl Models {
    fn load(loader: &Loader<'_>, connected: Option<Connected>) -> anyhow::Result<Self> {
        let models = &loader.config.models;
        let detection = loader.load(&models.detector, Operation::FaceDetection)?;
        let embedding = loader.load(&models.embedder, Operation::FaceEmbedding)?;
        let encoding = match &models.encoder {
            Some(id) => Some(loader.load_encoder(loader.registry.get(id)?, connected)?),
            None => None,
        };
        Ok(Self {
            detection,
            embedding,
            encoding,
        })
    }

    fn assignments(&self) -> Vec<Assignment> {
        [&self.detection, &self.embedding]
            .into_iter()
            .chain(&self.encoding)
            .map(|loaded| loaded.assignment.clone())
            .collect()
    }
}

/// The operations whose graphs are built here.
struct Graphs {
    processing: ImageExecutor,
    enhancing: ImageExecutor,
    preprocessing: Preprocessing,
    grader: Option<Grader>,
    assignments: [Assignment; 3],
}

impl Graphs {
    fn load(loader: &Loader<'_>, detector_input: &Normalisation) -> anyhow::Result<Self> {
        let letterboxing = Detector::letterboxing_probe(detector_input);
        let probe = image_executor::all_probes([
            image_executor::health_probe([letterboxing]),
            process::probe(),
        ]);
        let (processing, processed) = loader.load_pictures(Operation::ImageProcessing, probe);
        let probe = image_executor::health_probe([Finishing::probe()]);
        let (enhancing, enhanced) = loader.load_pictures(Operation::ImageEnhancement, probe);
        let preprocessing = loader.load_preprocessing()?;
        let (quality, measured) = loader.load_quality();
        Ok(Self {
            processing,
            enhancing,
            preprocessing,
            grader: quality.map(Grader::new),
            assignments: [processed, enhanced, measured],
        })
    }
}

/// Refuses settings that the detector's input does not take.
fn check_detection_sizes(detector: &Detector, config: &Config) -> anyhow::Result<()> {
    let detection = &config.detection;
    for (setting, size) in [
        ("detection.det_size", Some(detection.det_size)),
        ("detection.second_det_size", detection.second_det_size),
    ] {
        if let Err(detail) = size.map_or(Ok(()), |size| detector.check_size(size)) {
            anyhow::bail!("{setting}: {detail}");
        }
    }
    Ok(())
}
