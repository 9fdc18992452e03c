//! The threads that only decode images and run the models.

use std::{
    num::NonZeroUsize,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use facescan::{
    app::App,
    cli::{bench::images::Image, runtime::backend},
    config::Config,
    pipeline::operations::scan::{kind::ScanKind, plan::ScanPlan, request::ScanRequest},
};
use image::RgbImage;
use tokio::task::spawn_blocking;

use super::{FloorFigures, Shares, sessions::Bare};
use crate::{
    math::Durations,
    workload::{Sequence, Window, Workload},
};
use facescan_clock::SystemClock;
use facescan_imaging::{
    decode::{DecodeOptions, decode, decode_within},
    memory::PixelMemory,
    tensor::Letterbox,
};
use facescan_inference::{backend::Backend, device_task::DeviceTask};

/// The bytes of decoded images that each thread keeps for reuse.
const MEMORY: usize = 36 << 20;

/// The threads and their open sessions.
pub struct Floor {
    workers: Vec<Worker>,
    images: Arc<[Image]>,
    faces: Arc<[usize]>,
    decoding: DecodeOptions,
}

/// The sessions of one thread.
struct Worker {
    detector: Bare,
    embedder: Option<Bare>,
    memory: PixelMemory,
}

/// The results of one thread in the window.
struct Part {
    images: Durations,
    within: u64,
    decode: Duration,
    detect: Duration,
    embed: Duration,
}

impl Floor {
    /// Opens the sessions, and counts the faces that the embedder has to process.
    ///
    /// # Errors
    /// Returns an error if a model or an image cannot be used.
    pub async fn prepare(
        config: &Config,
        workload: &Workload,
        images: &Arc<[Image]>,
        threads: Option<NonZeroUsize>,
    ) -> anyhow::Result<Self> {
        let backend = backend(config)?;
        let mut config = config.clone();
        // Nothing is stored, so no database file may be created.
        config.database.url = Some("sqlite::memory:".to_owned().into());
        let app = App::builder(config, Arc::clone(&backend), Arc::new(SystemClock::start()))
            .build()
            .await?;
        let mut faces = Vec::new();
        for image in images.iter() {
            let found = faces_in(&app, image, workload.operation).await;
            faces.push(found.with_context(|| format!("scanning {}", image.path.display()))?);
        }
        anyhow::ensure!(!images.is_empty(), "there are no images");
        let decoding = app.pipeline.decoding;
        let pixels = images
            .iter()
            .map(|image| Ok(decode(&image.bytes, &decoding)?.pixels))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let threads = match threads {
            Some(threads) => threads,
            None => thread::available_parallelism().context("counting the cores")?,
        };
        let workers = (0..threads.get())
            .map(|_| Worker::open(&app, backend.as_ref(), &pixels, workload.operation))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            workers,
            images: Arc::clone(images),
            faces: faces.into(),
            decoding,
        })
    }

    /// Runs the threads for the time of the workload.
    ///
    /// # Errors
    /// Returns an error if an image or a model fails.
    pub async fn measure(&mut self, workload: &Workload) -> anyhow::Result<FloorFigures> {
        let work = Arc::new(Work {
            images: Arc::clone(&self.images),
            faces: Arc::clone(&self.faces),
            decoding: self.decoding,
            sequence: workload.sequence(self.images.len()),
            window: workload.window(),
        });
        let running: Vec<_> = self
            .workers
            .drain(..)
            .map(|mut worker| {
                let work = Arc::clone(&work);
                spawn_blocking(move || worker.work(&work).map(|part| (worker, part)))
            })
            .collect();
        let mut whole = Part::new()?;
        for thread in running {
            let (worker, part) = thread.await.context("a measuring thread failed")??;
            whole.add(&part)?;
            self.workers.push(worker);
        }
        let spent = (whole.decode + whole.detect + whole.embed).as_secs_f64();
        let share = |part: Duration| part.as_secs_f64() / spent.max(f64::MIN_POSITIVE);
        Ok(FloorFigures {
            threads: self.workers.len(),
            throughput: whole.within as f64 / workload.seconds,
            latency_ms: whole.images.percentiles(),
            shares: Shares {
                decode: share(whole.decode),
                detect: share(whole.detect),
                embed: share(whole.embed),
            },
            faces: self.faces.to_vec(),
        })
    }
}

/// Returns the number of faces that the pipeline finds.
async fn faces_in(app: &App, image: &Image, kind: ScanKind) -> anyhow::Result<usize> {
    let options = plan(app, kind)?;
    let context = app.run_context();
    let file = image.bytes.clone().into();
    let scan = app.pipeline.drive(&context, file, &options);
    Ok(scan.await?.result.faces.len())
}

fn plan(app: &App, kind: ScanKind) -> anyhow::Result<ScanPlan> {
    let asked = ScanRequest {
        store: Some(false),
        ..ScanRequest::default()
    };
    let thresholds = &app.pipeline.models.detector.spec.thresholds;
    Ok(asked.resolve(kind, &app.config, thresholds)?)
}

/// The data that all threads share.
struct Work {
    images: Arc<[Image]>,
    faces: Arc<[usize]>,
    decoding: DecodeOptions,
    sequence: Sequence,
    window: Window,
}

impl Worker {
    fn open(
        app: &App,
        backend: &dyn Backend,
        images: &[RgbImage],
        kind: ScanKind,
    ) -> anyhow::Result<Self> {
        let models = &app.config.models_dir();
        let detector = &app.pipeline.models.detector.spec;
        let embedder = app.pipeline.models.embedder.spec();
        let size = plan(app, kind)?.detect.main_input();
        let position = |image: &RgbImage| {
            let detector = &app.pipeline.models.detector;
            detector.letterbox(image.dimensions(), size)
        };
        let placed: Vec<_> = images
            .iter()
            .map(|image| (image, position(image)))
            .collect();
        let crop = embedder.input.width;
        let placement = |operation| app.pipeline.devices.cpu_placement(operation);
        Ok(Self {
            detector: Bare::open(
                backend,
                (detector, placement(DeviceTask::FaceDetection)),
                models,
                &placed,
            )?,
            embedder: (kind == ScanKind::Embed)
                .then(|| {
                    let first = &images[..1];
                    let whole = |image: &RgbImage| Letterbox::fit(image.dimensions(), (crop, crop));
                    let crops: Vec<_> = first.iter().map(|image| (image, whole(image))).collect();
                    let embedder = (embedder.as_ref(), placement(DeviceTask::FaceEmbedding));
                    Bare::open(backend, embedder, models, &crops)
                })
                .transpose()?,
            memory: PixelMemory::new(MEMORY),
        })
    }

    fn work(&mut self, work: &Work) -> anyhow::Result<Part> {
        let mut part = Part::new()?;
        loop {
            let begun = Instant::now();
            if begun >= work.window.end {
                return Ok(part);
            }
            let index = work.sequence.take();
            let image = &work.images[index].bytes;
            let image = decode_within(image, &work.decoding, &self.memory)?;
            // The server also reuses the memory of decoded images.
            self.memory.keep(image.pixels.into_raw());
            let decoded = Instant::now();
            self.detector.run(index)?;
            let detected = Instant::now();
            if let Some(embedder) = &mut self.embedder {
                for _ in 0..work.faces[index] {
                    embedder.run(0)?;
                }
            }
            let done = Instant::now();
            if work.window.contains(done) {
                part.within += 1;
            }
            if work.window.contains(begun) {
                part.images.add(done - begun);
                part.decode += decoded - begun;
                part.detect += detected - decoded;
                part.embed += done - detected;
            }
        }
    }
}

impl Part {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            images: Durations::new()?,
            within: 0,
            decode: Duration::ZERO,
            detect: Duration::ZERO,
            embed: Duration::ZERO,
        })
    }

    fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.within += other.within;
        self.decode += other.decode;
        self.detect += other.detect;
        self.embed += other.embed;
        self.images.merge(&other.images)
    }
}
