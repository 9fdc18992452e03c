//! Builds an application from its parts.

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use anyhow::Context;
use facescan_audit::{AuditLog, key::AuditKey, refusals::RefusalLog};
use facescan_batches::{
    Batches,
    payloads::Payloads,
    queue::{
        WorkQueue,
        database::DatabaseQueue,
        nats::{NatsQueue, Outbox},
    },
    running::RunningBatches,
    watches::BatchWatches,
};
use facescan_clock::{Clock, SystemClock};
use facescan_config::{AuditLevel, Config};
use facescan_inference::{
    backend::Backend,
    pool::{CpuPool, PoolOptions, Stage},
    registry::Registry,
};
use facescan_pipeline::{
    Pipeline,
    admission::{Admission, Budgets},
    encoder_process::EncoderProcesses,
    ingest::{
        fetch::{Fetcher, SystemLookup, web::WebFetcher},
        intake::Intake,
        post::WebPoster,
    },
    runner::Runner,
};
use facescan_recognition::{calibration::Calibrations, collections::Collections};
use facescan_store::{Observer, Store, StoreSettings};
use facescan_telemetry::metrics::{Metrics, labels::Limit};

use super::{App, audit_heads, face_index, models::Loader, pipeline, store_fault::StoreFault};
use crate::{
    access::{authenticator::Authenticator, rate_limit::RateLimits},
    erasure::{Erasures, retention::RetentionSweeper},
    lifecycle::Lifecycle,
};

/// What an [`App`] takes from outside. The settings decide everything else.
pub struct Parts {
    /// Runs the models.
    pub backend: Arc<dyn Backend>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Fetches URLs if the settings allow URLs. `None` means from the web.
    pub fetcher: Option<Arc<dyn Fetcher>>,
    /// The program whose processes encode large images. `None` means this process.
    pub encoder: Option<PathBuf>,
}

impl Parts {
    /// Takes the models from `backend`, the time from the clock of the machine, and URLs from the web.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            clock: Arc::new(SystemClock::start()),
            fetcher: None,
            encoder: None,
        }
    }

    /// Loads the models, opens the database and starts the workers.
    ///
    /// An unavailable database does not stop the start. Its tables are created when it is available again.
    ///
    /// # Errors
    /// Returns an error if a model is missing or does not match its registry entry, or if the database cannot be used.
    pub async fn start(self, config: Config) -> anyhow::Result<App> {
        let fetcher = self.open_fetcher(&config)?;
        let registry = Registry::load(
            config.models.registry.as_deref(),
            &config.preprocess.resize_defaults(),
        )?;
        let metrics = Metrics::default();
        let observer = Observer::new(Arc::clone(&self.clock), Arc::new(metrics.clone()));
        let store = open_store(&config, observer).await?;
        metrics.watch_store(store.connection_counts());
        record_limits(&config, &metrics);
        let pipeline = self.load_pipeline(&config, &registry, &metrics).await?;
        let pool = Arc::clone(&pipeline.pool);
        let store = store.with_turns(move || Box::pin(pool.next_turn(Stage::Finish)));
        let clock = self.clock;
        let (audit, refusals) = audit_logs(&config, &store, &clock);
        let runner = Runner {
            hashes_images: audit.records(AuditLevel::All),
            intake: Arc::new(Intake::new(
                &config,
                fetcher,
                Arc::clone(&clock),
                metrics.clone(),
            )),
            pipeline: pipeline.clone(),
            store: store.clone(),
            admission: Admission::new(budgets(&config), metrics.clone(), &clock),
        };
        let calibrations = Arc::new(Calibrations::load(&config.recognition.calibrations)?);
        let collections = collections(&config, &store, &pipeline, (&calibrations, &audit)).await?;
        let batches = batches(&config, store.clone(), &runner, &collections).await?;
        Ok(App {
            audit_heads: audit_heads::open(&config, &store, (&clock, &metrics))?,
            collections,
            calibrations,
            access: Authenticator::new(&config, store.clone(), Arc::clone(&clock))?,
            rate_limits: RateLimits::new(&config.rate_limits, &clock),
            retention: retention(&config, &store, &metrics, clock),
            erasures: Erasures {
                store: store.clone(),
                audit: audit.clone(),
                batches: batches.clone(),
            },
            store,
            refusals,
            audit,
            batches,
            admission: runner.admission.clone(),
            runner,
            metrics,
            pipeline,
            config,
            registry,
            lifecycle: Lifecycle::default(),
            store_fault: StoreFault::default(),
        })
    }

    /// Creates the client for outbound HTTP. Returns `None` if the settings disable it.
    fn open_fetcher(&self, config: &Config) -> anyhow::Result<Option<Arc<dyn Fetcher>>> {
        if self.fetcher.is_some() || !config.urls.enabled {
            return Ok(self.fetcher.clone());
        }
        let fetcher = WebFetcher::new(&config.urls, Arc::new(SystemLookup))
            .context("setting up the client for urls")?;
        Ok(Some(Arc::new(fetcher)))
    }

    /// Loads the models and starts the threads that run them.
    async fn load_pipeline(
        &self,
        config: &Config,
        registry: &Registry,
        metrics: &Metrics,
    ) -> anyhow::Result<Pipeline> {
        let pool = CpuPool::new(config.imaging.worker_threads());
        let pool = Arc::new(pool.context("starting the CPU pool")?);
        let threads = pool.threads();
        let long_pool = Arc::new(start_long_pool("long", threads)?);
        let encoders = match &self.encoder {
            Some(program) => {
                let waiting = Arc::new(start_long_pool("encode", threads)?);
                Some(EncoderProcesses::new(program.clone(), waiting))
            }
            None => None,
        };
        metrics.watch_pool(pool.load());
        let loader = Loader {
            config,
            registry,
            backend: &self.backend,
            pool: &pool,
            long_pool: &long_pool,
            encoders: encoders.as_ref(),
            clock: &self.clock,
            metrics,
            placements: Mutex::default(),
        };
        let pipeline = pipeline::load(&loader).await?;
        watch(&pipeline, metrics);
        Ok(pipeline)
    }
}

/// Starts what records requests in the audit trail.
fn audit_logs(
    config: &Config,
    store: &Store,
    clock: &Arc<dyn Clock>,
) -> (AuditLog, Arc<RefusalLog>) {
    let level = config.audit.level;
    let tenant = &config.store.tenant;
    (
        AuditLog::start(level, store.clone(), Arc::clone(clock)),
        RefusalLog::start(level, tenant, store.clone(), Arc::clone(clock)),
    )
}

async fn collections(
    config: &Config,
    store: &Store,
    pipeline: &Pipeline,
    (calibrations, audit): (&Arc<Calibrations>, &AuditLog),
) -> anyhow::Result<Collections> {
    Ok(Collections {
        store: store.clone(),
        index: face_index::open(config, store, &pipeline.pool).await?,
        calibrations: Arc::clone(calibrations),
        audit: audit.clone(),
        purposes: config.recognition.purposes.clone().into(),
        max_search_far: config.recognition.max_search_far,
        max_searches_per_day: config.recognition.max_searches_per_day,
        clock: Arc::clone(&pipeline.clock),
    })
}

fn retention(
    config: &Config,
    store: &Store,
    metrics: &Metrics,
    clock: Arc<dyn Clock>,
) -> RetentionSweeper {
    RetentionSweeper {
        store: store.clone(),
        audit_key: AuditKey::new(config.audit.secret.as_ref()),
        clock,
        metrics: metrics.clone(),
        config: Arc::new(config.clone()),
    }
}

/// Starts the pool of work that cannot give up its turn. Half of its turns stay free for other tenants, and its threads
/// leave the cores to the work that can.
fn start_long_pool(name: &'static str, threads: usize) -> anyhow::Result<CpuPool> {
    let tenant_turns = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
    let options = PoolOptions {
        tenant_turns,
        is_background: true,
        name,
        ..PoolOptions::new(tenant_turns.saturating_mul(NonZeroUsize::MIN.saturating_add(1)))
    };
    CpuPool::with_options(options).context("starting the threads for long work")
}

/// Opens the store of images, and combines the parts of batches.
async fn batches(
    config: &Config,
    store: Store,
    runner: &Runner,
    collections: &Collections,
) -> anyhow::Result<Batches> {
    Ok(Batches {
        queue: queue(config, &store, runner).await?,
        store: store.clone(),
        sender: Arc::new(WebPoster::new(&config.urls, Arc::new(SystemLookup))?),
        payloads: Payloads::open(config)?,
        runner: runner.clone(),
        audit: collections.audit.clone(),
        collections: collections.clone(),
        config: Arc::new(config.clone()),
        running: RunningBatches::default(),
        watches: BatchWatches::default(),
    })
}

/// Connects the queue that the settings name.
async fn queue(
    config: &Config,
    store: &Store,
    runner: &Runner,
) -> anyhow::Result<Arc<dyn WorkQueue>> {
    let poll = config.batches.poll_ms.duration();
    let Some(url) = &config.batches.queue else {
        let notifications = store.notifications();
        return Ok(Arc::new(DatabaseQueue::new(notifications, poll)));
    };
    let outbox = Outbox {
        store: store.clone(),
        clock: Arc::clone(&runner.pipeline.clock),
        poll,
    };
    let token = config.batches.queue_token.as_ref();
    Ok(Arc::new(NatsQueue::connect(url, token, outbox).await?))
}

/// Records the limits that the other metrics are compared with.
fn record_limits(config: &Config, metrics: &Metrics) {
    let budgets = budgets(config);
    metrics.limit(Limit::Requests, budgets.requests);
    metrics.limit(Limit::InteractiveImages, budgets.interactive_images);
    metrics.limit(Limit::BulkImages, budgets.bulk_images);
    metrics.limit(Limit::BodyBytes, budgets.bytes);
    let connections = config.database.max_connections;
    metrics.limit(Limit::StoreConnections, connections as usize);
}

/// Has the metrics read the queues and the devices of a pipeline.
fn watch(pipeline: &Pipeline, metrics: &Metrics) {
    let permits = pipeline.decode_permits.clone();
    metrics.watch_priorities(move || {
        permits
            .waiting()
            .map(|(priority, images)| (priority.name(), images))
    });
    let devices = Arc::clone(&pipeline.devices);
    metrics.watch_devices(move || {
        let states = devices.iter();
        states
            .map(|(operation, state)| (operation.name(), state))
            .collect::<Vec<_>>()
    });
}

fn budgets(config: &Config) -> Budgets {
    let images = config.admitted_images();
    Budgets {
        requests: config.admitted_requests(),
        interactive_images: images.interactive,
        bulk_images: images.bulk,
        bytes: config.admission.max_bytes,
        max_wait: config.admission.max_wait_ms.duration(),
    }
}

/// Opens the database that the settings name.
///
/// # Errors
/// Returns an error if the URL is not usable.
pub async fn open_store(config: &Config, observer: Observer) -> anyhow::Result<Store> {
    let settings = StoreSettings {
        url: config.database_url(),
        max_connections: config.database.max_connections,
        acquire_timeout: config.database.acquire_timeout_ms.duration(),
        call_timeout: config.database.call_timeout_ms.duration(),
    };
    Store::open(&settings, observer)
        .await
        .context("opening the database")
}
