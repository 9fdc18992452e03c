//! The application: what every entry shares, put together once.

use std::{
    cell::RefCell,
    sync::{Arc, OnceLock},
};

use anyhow::Context;

use crate::{
    admission::{Admission, Budgets, gate::Gate},
    config::Config,
    ingest::{
        fetch::{Fetcher, SystemLookup, web::WebFetcher},
        intake::Intake,
    },
    lifecycle::Lifecycle,
    pipeline::{
        Pipeline, detect::Detector, embed::Embedder, encode::Encoder, enhance::Finishing, process,
        quality::Grader, stored::model_file,
    },
    telemetry::metrics::Metrics,
};
use facescan_clock::Clock;
use facescan_imaging::{decode::DecodeOptions, limits::Limits, memory::PixelMemory};
use facescan_inference::pool::CpuPool;
use facescan_inference::{
    backend::Backend,
    device::Devices,
    operation::Operation,
    pictures,
    registry::{ModelSpec, Registry},
};
use facescan_store::{self, Model, Store, StoreError, StoreSettings};

use models::{Connected, Loader, Places};

mod models;

/// Memory of pictures that is kept for the next ones, for each thread that decodes, in bytes: a picture of 12
/// megapixels.
const PIXEL_BYTES: usize = 36 << 20;
/// The same for all of them together.
const MOST_PIXEL_BYTES: usize = 256 << 20;

/// A running application.
pub struct App {
    /// The effective settings.
    pub config: Config,
    /// The models that are known.
    pub registry: Registry,
    /// Everything an image passes through.
    pub pipeline: Pipeline,
    /// Lets requests in.
    pub admission: Admission,
    /// Gets the bytes of images.
    pub intake: Intake,
    /// What is counted.
    pub metrics: Metrics,
    /// Whether it is on its way out.
    pub lifecycle: Lifecycle,
    /// Why the database cannot be used until someone repairs it.
    pub store_fault: OnceLock<String>,
}

impl App {
    /// Loads the models, opens the database and starts the workers.
    ///
    /// A database that is away does not stop the start: its tables are made when it is back.
    ///
    /// # Errors
    /// A model that is missing or does not fit its registry entry, or a database that cannot be used.
    pub async fn start(
        config: Config,
        backend: Arc<dyn Backend>,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let store = open_store(&config).await?;
        let fetcher = open_fetcher(&config)?;
        Self::with_store(config, backend, store, fetcher, clock).await
    }

    /// The same over a store that is open already, and with outbound HTTP as it is given.
    ///
    /// # Errors
    /// A model that is missing or does not fit its registry entry.
    pub async fn with_store(
        config: Config,
        backend: Arc<dyn Backend>,
        store: Arc<dyn Store>,
        fetcher: Option<Arc<dyn Fetcher>>,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let registry = Registry::load(
            config.models.registry.as_deref(),
            &config.preprocess.resize_defaults(),
        )?;
        let metrics = Metrics::default();
        let pool =
            CpuPool::new(config.imaging.worker_threads()).context("starting the CPU pool")?;
        let pool = Arc::new(pool);
        let encoder = match &config.models.encoder {
            Some(id) => {
                let spec = registry.get(id)?;
                Some((spec, Connected::of(spec, &metrics, &clock).await?))
            }
            None => None,
        };
        let loader = Loader {
            config: &config,
            registry: &registry,
            backend: &backend,
            pool: &pool,
            clock: &clock,
            metrics: &metrics,
            places: RefCell::new(Places::default()),
        };
        let detecting = loader.load(&config.models.detector, Operation::FaceDetection)?;
        let embedding = loader.load(&config.models.embedder, Operation::FaceEmbedding)?;
        let encoding = match encoder {
            Some((spec, connected)) => Some(loader.load_encoder(spec, connected)?),
            None => None,
        };
        let letterboxing = Detector::letterboxing_probe(&detecting.spec.input.normalisation());
        let known = pictures::probe_all([pictures::probe([letterboxing]), process::probe()]);
        let (processing, processed) = loader.load_pictures(Operation::ImageProcessing, known);
        let known = pictures::probe([Finishing::probe()]);
        let (enhancing, enhanced) = loader.load_pictures(Operation::ImageEnhancement, known);
        let mut preprocessing = loader.load_preprocessing()?;
        let (measuring, quality) = loader.load_quality();
        let tried = loader.places.into_inner().into_tried();
        let mut assignments = vec![detecting.assignment, embedding.assignment];
        assignments.extend([processed, enhanced, quality]);
        let encoder = encoding.map(|loaded| {
            assignments.push(loaded.assignment);
            Encoder::new(loaded.spec, loaded.engine)
        });
        if config.preprocess.warm_up {
            preprocessing.warm_up(clock.as_ref()).await;
        }
        let prepared = (
            Arc::clone(&preprocessing.assignment),
            preprocessing.warm_up_ms,
        );
        let devices = Devices::new(assignments, prepared, tried, Arc::clone(&clock));
        devices.announce();
        let (detector_spec, detector_engine) = (detecting.spec, detecting.engine);
        let (embedder_spec, embedder_engine) = (embedding.spec, embedding.engine);
        let detector = Detector::new(detector_spec, detector_engine)
            .context("the detector has no known head")?;
        for (setting, size) in [
            ("detection.det_size", Some(config.detection.det_size)),
            (
                "detection.second_det_size",
                config.detection.second_det_size,
            ),
        ] {
            if let Err(detail) = size.map_or(Ok(()), |size| detector.check_size(size)) {
                anyhow::bail!("{setting}: {detail}");
            }
        }
        let limits = &config.limits;
        let pipeline = Pipeline {
            encoder,
            grader: measuring.map(Grader::new),
            processing,
            enhancing,
            preprocessing,
            memory: Arc::new(PixelMemory::new(
                MOST_PIXEL_BYTES.min(PIXEL_BYTES * pool.threads()),
            )),
            detector,
            embedder: Embedder::new(
                embedder_spec,
                embedder_engine,
                config.batching.cpu_batch_size.get(),
            ),
            pool,
            gate: Gate::new(
                config.imaging.decoded_pictures(),
                config.admission.bulk_max_wait(),
                Arc::clone(&clock),
            ),
            decoding: DecodeOptions {
                limits: Limits {
                    max_bytes: limits.max_image_bytes,
                    max_width: limits.max_width,
                    max_height: limits.max_height,
                    max_pixels: limits.max_pixels,
                },
                background: config.imaging.background,
            },
            devices: Arc::new(devices),
            store,
            tenant: config.store.tenant.as_str().into(),
            clock,
        };
        let clock = Arc::clone(&pipeline.clock);
        let intake = Intake::new(&config, fetcher, clock, metrics.clone());
        let (interactive_images, bulk_images) = config.admitted_images();
        let budgets = Budgets {
            interactive_images,
            bulk_images,
            bytes: config.admission.max_bytes,
        };
        Ok(Self {
            admission: Admission::new(budgets, metrics.clone()),
            intake,
            metrics,
            config,
            registry,
            pipeline,
            lifecycle: Lifecycle::default(),
            store_fault: OnceLock::new(),
        })
    }
}

impl App {
    /// Makes the tables, where the settings allow it, and records which models answer from now on.
    ///
    /// # Errors
    /// A database that is away, or tables of another version.
    pub async fn prepare_store(&self) -> Result<(), StoreError> {
        let store = &self.pipeline.store;
        if self.config.database.migrate_on_start {
            store.migrate().await?;
        }
        let specs = [&self.pipeline.detector.spec, &self.pipeline.embedder.spec];
        let models: Vec<Model> = specs
            .into_iter()
            .map(|spec| stored_model(spec))
            .collect::<Result<_, _>>()?;
        store
            .register_models(&models, self.pipeline.clock.now())
            .await
    }
}

fn stored_model(spec: &ModelSpec) -> Result<Model, StoreError> {
    let file = model_file(spec).map_err(|error| StoreError::Invalid(error.to_string()))?;
    Ok(Model {
        id: file.id,
        role: spec.role.to_string(),
        family: spec.family.to_string(),
        sha256: file.sha256,
        contract: spec.dim.map(|_| spec.contract()),
        dim: spec.dim.and_then(|dim| u32::try_from(dim).ok()),
    })
}

/// Opens the database that the settings name.
///
/// # Errors
/// A URL that cannot be used.
pub async fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let settings = StoreSettings {
        url: config.database_url(),
        max_connections: config.database.max_connections,
        acquire_timeout: config.database.acquire_timeout(),
    };
    let store = facescan_store::connect(&settings)
        .await
        .context("opening the database")?;
    Ok(store)
}

/// Outbound HTTP by the settings; `None` where they have it off.
fn open_fetcher(config: &Config) -> anyhow::Result<Option<Arc<dyn Fetcher>>> {
    if !config.urls.enabled {
        return Ok(None);
    }
    let fetcher = WebFetcher::new(&config.urls, Arc::new(SystemLookup))
        .context("making ready to fetch urls")?;
    Ok(Some(Arc::new(fetcher)))
}
