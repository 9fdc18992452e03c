//! The threads that only decode images and run the models.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::Context;
use facescan::{
    app::{App, Parts},
    cli::{
        bench::images::Image,
        runtime::{backend, store_nothing},
    },
};
use facescan_config::Config;
use facescan_pipeline::{
    core::options::StorageRequest,
    operation::ScanKind,
    operations::scan::request::{ScanPlan, ScanRequest},
};
use image::RgbImage;

use super::{Part, Window, sessions::Bare};
use facescan_imaging::{
    decode::{DecodeOptions, decode, decode_within},
    memory::PixelMemory,
    tensor::Letterbox,
};
use facescan_inference::{backend::Backend, device_task::DeviceTask};

/// The bytes of decoded images that each thread keeps for reuse.
const MEMORY: usize = 36 << 20;

/// What all threads share.
pub struct Work {
    images: Arc<[Image]>,
    /// The number of faces in each image, in the order of the images.
    pub faces: Vec<usize>,
    decoding: DecodeOptions,
    taken: AtomicUsize,
}

/// The sessions of one thread.
pub struct Worker {
    detector: Bare,
    embedder: Option<Bare>,
    memory: PixelMemory,
}

/// Opens the sessions of all threads, and counts the faces that the embedder has to process.
pub async fn prepare(
    config: &Config,
    kind: ScanKind,
    images: Arc<[Image]>,
    threads: NonZeroUsize,
) -> anyhow::Result<(Vec<Worker>, Work)> {
    let backend = backend(config)?;
    let mut config = config.clone();
    store_nothing(&mut config);
    let app = Parts::new(Arc::clone(&backend)).start(config).await?;
    let decoding = app.pipeline.decoding;
    let (mut faces, mut pixels) = (Vec::new(), Vec::new());
    for image in images.iter() {
        let found = faces_in(&app, image, kind).await;
        faces.push(found.with_context(|| format!("scanning {}", image.path.display()))?);
        pixels.push(decode(&image.bytes, &decoding)?.pixels);
    }
    let workers = (0..threads.get())
        .map(|_| Worker::open(&app, backend.as_ref(), &pixels, kind))
        .collect::<anyhow::Result<_>>()?;
    let work = Work {
        images,
        faces,
        decoding,
        taken: AtomicUsize::new(0),
    };
    Ok((workers, work))
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
    let mut asked = ScanRequest {
        storage: StorageRequest::new(false),
        ..ScanRequest::default()
    };
    let thresholds = &app.pipeline.models.detector.spec.thresholds;
    Ok(asked.resolve(kind, &app.config, thresholds)?)
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

    /// Takes images in turn until the end of the window.
    pub fn run(&mut self, work: &Work, window: Window) -> anyhow::Result<Part> {
        let mut part = Part::default();
        loop {
            let begun = Instant::now();
            if begun >= window.end {
                return Ok(part);
            }
            let index = work.taken.fetch_add(1, Ordering::Relaxed) % work.images.len();
            let image = &work.images[index].bytes;
            let image = decode_within(image, &work.decoding, &self.memory, None)?;
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
            if window.contains(done) {
                part.images += 1;
            }
            if window.contains(begun) {
                part.latencies.push(done - begun);
                part.decode += decoded - begun;
                part.detect += detected - decoded;
                part.embed += done - detected;
            }
        }
    }
}
