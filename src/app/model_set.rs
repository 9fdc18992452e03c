//! The models and graphs of every operation, loaded on their devices.

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
        detect::Detector, embed::Embedder, encode::Encoder, enhance::FinishJob,
        preprocess::Preprocessing, process, quality::Grader,
    },
};

/// The models and graphs that the pipeline uses.
pub(super) struct ModelSet {
    pub detector: Detector,
    pub embedder: Embedder,
    /// `None` if the settings name no model for whole images.
    pub encoder: Option<Encoder>,
    /// `None` if the CPU measures quality.
    pub grader: Option<Grader>,
    pub processing: ImageExecutor,
    pub enhancing: ImageExecutor,
    pub preprocessing: Preprocessing,
    pub devices: Devices,
}

impl ModelSet {
    /// Loads the models that the settings name. `connected` is the encoder's server, if it has one.
    ///
    /// # Errors
    /// Returns an error if a model is missing or does not match its registry entry, or if a required device is missing.
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

/// The models that come from a file or a server.
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

/// The operations whose graphs this server builds.
struct Graphs {
    processing: ImageExecutor,
    enhancing: ImageExecutor,
    preprocessing: Preprocessing,
    grader: Option<Grader>,
    assignments: [Assignment; 3],
}

impl Graphs {
    fn load(loader: &Loader<'_>, detector_input: &Normalisation) -> anyhow::Result<Self> {
        let letterbox = Detector::letterbox_probe(detector_input);
        let probe = image_executor::all_probes([
            image_executor::health_probe([letterbox]),
            process::probe(),
        ]);
        let (processing, processed) = loader.load_pictures(Operation::ImageProcessing, probe);
        let probe = image_executor::health_probe([FinishJob::probe()]);
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

/// Checks that the detector's input accepts the sizes in the settings.
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
