//! The pipeline: the models and graphs of every operation on their devices, and what the operations share.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context;
use facescan_clock::Clock;
use facescan_config::{Config, DecodeMode};
use facescan_imaging::{
    decode::{DecodeOptions, Limits, SYSTEM_LIBRARY, TurboJpeg},
    memory::PixelMemory,
};
use facescan_inference::{
    device::{Assignment, Devices},
    device_task::{DeviceTask, Workload},
    image_executor::{self, HealthProbe, ImageExecutor},
    registry::ModelSpec,
};
use facescan_pipeline::{
    Pipeline,
    admission::priority_semaphore::{PermitLimits, PrioritySemaphore},
    core::work::WorkLimit,
    models::{Models, detector::Detector, grader::Grader},
    operations::{enhance::FinishJob, process},
};

use super::models::Loader;

/// The bytes of decoded images that are kept for reuse, per thread of the pool. They fit an image of 12 megapixels.
const PIXEL_BYTES_PER_THREAD: usize = 36 << 20;
/// The limit of the same for all threads together.
const MAX_PIXEL_BYTES: usize = 256 << 20;

/// The minimum number of faces of one image that are processed at a time.
const MIN_FACE_CHUNK: usize = 16;

/// Loads the models that the settings name, and what the operations share.
///
/// # Errors
/// Returns an error if a model is missing or does not match its registry entry, or if a required device is missing.
pub(super) async fn load(loader: &Loader<'_>) -> anyhow::Result<Pipeline> {
    let (config, clock) = (loader.config, loader.clock);
    let (models, mut assignments) = load_models(loader).await?;
    check_detection_sizes(&models.detector, config)?;
    let letterbox = Detector::letterbox_probe(&models.detector.spec.input.normalization());
    let probe =
        image_executor::all_probes([image_executor::health_probe([letterbox]), process::probe()]);
    let (processing, processed) = load_executor(loader, DeviceTask::ImageProcessing, probe);
    let probe = image_executor::health_probe([FinishJob::probe()]);
    let (enhancing, enhanced) = load_executor(loader, DeviceTask::ImageEnhancement, probe);
    let mut preprocessing = loader.load_preprocessing()?;
    let (quality, measured) = loader.load_quality();
    assignments.extend([processed, enhanced, measured]);
    if config.preprocess.warm_up {
        preprocessing.warm_up(clock.as_ref()).await;
    }
    let warmed = (
        Arc::clone(&preprocessing.assignment),
        preprocessing.warm_up_ms,
    );
    let devices = Devices::new(assignments, warmed, loader.take_tried(), Arc::clone(clock));
    devices.announce();
    let pixel_bytes = MAX_PIXEL_BYTES.min(PIXEL_BYTES_PER_THREAD * loader.pool.threads());
    Ok(Pipeline {
        models,
        face_chunk_size: MIN_FACE_CHUNK.max(config.batching.cpu_batch_size.get()),
        // Without one, the CPU measures quality.
        grader: quality.map(Grader::new),
        processing,
        enhancing,
        preprocessing,
        devices: Arc::new(devices),
        memory: Arc::new(PixelMemory::new(pixel_bytes)),
        decode_permits: decode_permits(config, clock),
        work_limit: WorkLimit {
            max: config.limits.max_work,
        },
        decoding: decoding(config),
        turbojpeg: turbojpeg(config)?,
        encoders: loader.encoders.cloned(),
        metrics: loader.metrics.clone(),
        long_pool: Arc::clone(loader.long_pool),
        pool: Arc::clone(loader.pool),
        clock: Arc::clone(clock),
    })
}

fn decode_permits(config: &Config, clock: &Arc<dyn Clock>) -> PrioritySemaphore {
    let limits = PermitLimits {
        tenant_images: config.imaging.decoded_images(),
        bytes: config.imaging.decoded_bytes(),
    };
    PrioritySemaphore::new(
        limits,
        config.admission.bulk_max_wait_ms.duration(),
        Arc::clone(clock),
    )
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
        let (model, assignment) = match &spec.remote {
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

/// Loads libjpeg-turbo. Returns `None` if the settings name no library.
fn turbojpeg(config: &Config) -> anyhow::Result<Option<Arc<TurboJpeg>>> {
    let Some(path) = config.runtime.turbojpeg_library() else {
        if config.detection.decode == DecodeMode::Fast {
            tracing::warn!(
                "the setting detection.decode is fast, but images are decoded in full, because runtime.turbojpeg names no \
                 library; set it to {SYSTEM_LIBRARY} to use that of the system (Debian: libturbojpeg0)"
            );
        }
        return Ok(None);
    };
    let library = TurboJpeg::load(&path)
        .with_context(|| format!("loading {}, which runtime.turbojpeg names", path.display()))?;
    Ok(Some(Arc::new(library)))
}

fn decoding(config: &Config) -> DecodeOptions {
    let limits = &config.limits;
    DecodeOptions {
        limits: Limits {
            max_bytes: limits.max_image_bytes,
            max_width: limits.max_width,
            max_height: limits.max_height,
            max_pixels: limits.max_pixels,
        },
        background: config.imaging.background,
    }
}
