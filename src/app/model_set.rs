//! The models and graphs of every operation, loaded on their devices.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context;
use facescan_config::Config;
use facescan_inference::{
    device::{Assignment, Devices},
    device_task::{DeviceTask, Workload},
    image_executor::{self, HealthProbe, ImageExecutor},
    registry::ModelSpec,
};
use facescan_pipeline::{
    models::{Models, detector::Detector, grader::Grader, preprocessing::Preprocessing},
    operations::{enhance::FinishJob, process},
};

use super::models::{Loaded, Loader};

/// The models and graphs that the pipeline uses.
pub(super) struct ModelSet {
    pub models: Models,
    /// `None` if the CPU measures quality.
    pub grader: Option<Grader>,
    pub processing: ImageExecutor,
    pub enhancing: ImageExecutor,
    pub preprocessing: Preprocessing,
    pub devices: Devices,
}

impl ModelSet {
    /// Loads the models that the settings name.
    ///
    /// # Errors
    /// Returns an error if a model is missing or does not match its registry entry, or if a required device is missing.
    pub async fn load(loader: Loader<'_>) -> anyhow::Result<Self> {
        let (config, clock) = (loader.config, Arc::clone(loader.clock));
        let (models, mut assignments) = load_models(&loader).await?;
        check_detection_sizes(&models.detector, config)?;
        let (processing, processed) = load_processing(&loader, &models.detector);
        let (enhancing, enhanced) = load_enhancing(&loader);
        let mut preprocessing = loader.load_preprocessing()?;
        let (quality, measured) = loader.load_quality();
        assignments.extend([processed, enhanced, measured]);
        let tried = loader.into_tried();
        if config.preprocess.warm_up {
            preprocessing.warm_up(clock.as_ref()).await;
        }
        let warmed = (
            Arc::clone(&preprocessing.assignment),
            preprocessing.warm_up_ms,
        );
        let devices = Devices::new(assignments, warmed, tried, clock);
        devices.announce();
        Ok(Self {
            models,
            grader: quality.map(Grader::new),
            processing,
            enhancing,
            preprocessing,
            devices,
        })
    }
}

/// Loads the model of each operation that runs one.
async fn load_models(loader: &Loader<'_>) -> anyhow::Result<(Models, Vec<Assignment>)> {
    let (mut models, mut assignments) = (BTreeMap::new(), Vec::new());
    for task in DeviceTask::ALL {
        let Workload::Model(role) = task.workload() else {
            continue;
        };
        let Some(id) = loader.config.models.id(role) else {
            continue;
        };
        let spec = loader.registry.get(id)?;
        anyhow::ensure!(
            spec.role == role,
            "model {id}, field role: is {}, but models.{role} names this model",
            spec.role
        );
        check_license(spec, loader.config.models.commercial_only)?;
        let Loaded { model, assignment } = match &spec.remote {
            Some(remote) => loader.load_remote(spec, remote, task).await?,
            None => loader.load(spec, task)?,
        };
        models.insert(role, model);
        assignments.push(assignment);
    }
    let padding = loader.config.detection.padding;
    let models = Models::new(models, padding).context("the detector has no known head")?;
    Ok((models, assignments))
}

/// Says the license of a model in the log, and refuses the model if its license does not allow what the settings ask for.
fn check_license(spec: &ModelSpec, commercial_only: bool) -> anyhow::Result<()> {
    let (model, license) = (&spec.id, &spec.license);
    anyhow::ensure!(
        spec.commercial_use || !commercial_only,
        "the license of model {model} ({license}) does not allow commercial use; choose another model, or set \
         models.commercial_only to false if your use is not commercial"
    );
    tracing::info!(
        model,
        license,
        commercial_use = spec.commercial_use,
        "model license"
    );
    Ok(())
}

fn load_processing(loader: &Loader<'_>, detector: &Detector) -> (ImageExecutor, Assignment) {
    let letterbox = Detector::letterbox_probe(&detector.spec.input.normalization());
    let probe =
        image_executor::all_probes([image_executor::health_probe([letterbox]), process::probe()]);
    load_executor(loader, DeviceTask::ImageProcessing, probe)
}

fn load_enhancing(loader: &Loader<'_>) -> (ImageExecutor, Assignment) {
    let probe = image_executor::health_probe([FinishJob::probe()]);
    load_executor(loader, DeviceTask::ImageEnhancement, probe)
}

fn load_executor(
    loader: &Loader<'_>,
    task: DeviceTask,
    probe: HealthProbe,
) -> (ImageExecutor, Assignment) {
    loader.load_executor(task, loader.config.devices.requested(task), probe)
}

/// Checks that the detector's input accepts the sizes in the settings.
fn check_detection_sizes(detector: &Detector, config: &Config) -> anyhow::Result<()> {
    let detection = &config.detection;
    for (setting, size) in [
        ("detection.det_size", Some(detection.det_size.side())),
        ("detection.second_det_size", detection.second_det_size),
    ] {
        if let Err(detail) = size.map_or(Ok(()), |size| detector.check_size(size)) {
            anyhow::bail!("{setting}: {detail}");
        }
    }
    Ok(())
}
