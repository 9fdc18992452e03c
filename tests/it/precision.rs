//! The precision of stored vectors, with an embedder that reports bf16.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use facescan_imaging::precision::NumericPrecision::{self, Bf16, F32};
use facescan_inference::{
    backend::{BackendError, fake::FakeBackend},
    engine::{BatchSizes, Engine, EngineParts, Grouping, Sessions},
    placement::{DevicePlacement, Precision, Provider},
    tensor::{Signature, Tensor},
};
use facescan_pipeline::{
    Pipeline,
    core::scan::Scan,
    ingest::source::ImageInput,
    models::{embedder::Embedder, loaded::LoadedModel},
    operation::ScanKind,
    operations::scan::request::{ScanPlan, ScanRequest},
    runner::Runner,
};
use facescan_telemetry::metrics::Metrics;

use crate::support::app::{TestApp, image_file};

const REDUCED: DevicePlacement = DevicePlacement::first(Provider::OpenvinoCpu, Precision::Reduced);

/// Returns a pipeline whose embedder runs in bf16. If a run fails, the embedder continues in f32.
fn in_bf16(pipeline: &Pipeline, failing_run: Option<usize>) -> Pipeline {
    let dim = pipeline.models.embedder.dim;
    let runs = AtomicUsize::new(0);
    let backend = FakeBackend::with_placements(Signature::default(), move |placement, batch| {
        if placement == REDUCED && Some(runs.fetch_add(1, Ordering::Relaxed)) == failing_run {
            return Err(BackendError::run("on purpose"));
        }
        Ok(vec![Tensor {
            name: "vector".to_owned(),
            shape: vec![batch.rows(), dim],
            data: vec![1.0; batch.rows() * dim],
        }])
    });
    let replacement = backend.clone();
    let spec = Arc::clone(pipeline.models.embedder.spec());
    let engine = Engine::start(EngineParts {
        sessions: Sessions {
            per_worker: vec![backend.session(REDUCED, false)],
            all_cores: None,
            replacement: Some(Arc::new(move || {
                Ok(replacement.session(DevicePlacement::CPU, false))
            })),
            placement: REDUCED,
        },
        grouping: Grouping {
            max_rows: NonZeroUsize::MIN,
            sizes: BatchSizes::Any,
            max_delay: Duration::ZERO,
        },
        device: None,
        usual_row_len: spec.input.row_shape().iter().product(),
        pool: Arc::clone(&pipeline.pool),
        clock: Arc::clone(&pipeline.clock),
        metrics: Metrics::default().engine("face_embedding"),
    });
    let mut pipeline = pipeline.clone();
    pipeline.models.embedder = Embedder::new(LoadedModel {
        spec,
        engine,
        long: None,
    });
    pipeline
}

fn embedding(app: &TestApp) -> ScanPlan {
    let thresholds = &app.app.pipeline.models.detector.spec.thresholds;
    ScanRequest::default()
        .resolve(ScanKind::Embed, &app.app.config, thresholds)
        .unwrap()
}

async fn scan(app: &TestApp, pipeline: &Pipeline, options: &ScanPlan) -> Scan {
    let runner = Runner {
        pipeline: pipeline.clone(),
        ..app.app.runner.clone()
    };
    let context = app.app.run_context();
    let image = ImageInput::from_bytes(image_file("t1.jpg"));
    let image = runner.load(&context, image).await.unwrap();
    let scanned = runner.run(&context, image, options).await;
    scanned.unwrap().result
}

fn count(scan: &Scan, precision: NumericPrecision) -> usize {
    let embeddings = scan.faces.iter().filter_map(|face| face.embedding.as_ref());
    embeddings
        .filter(|embedding| embedding.precision == Some(precision))
        .count()
}

#[tokio::test]
async fn a_stored_scan_answers_only_if_its_precision_is_the_current_one() {
    let app = TestApp::start().await;
    let options = embedding(&app);
    let full = app.app.pipeline.clone();
    let reduced = in_bf16(&full, None);

    let first = scan(&app, &reduced, &options).await;
    assert_eq!((first.cached, count(&first, Bf16)), (false, 6));
    let other = scan(&app, &full, &options).await;
    assert_eq!((other.cached, count(&other, F32)), (false, 6));
    assert_eq!(first.image_id, other.image_id);

    let again = scan(&app, &reduced, &options).await;
    assert_eq!((again.cached, count(&again, Bf16)), (true, 6));
    let again = scan(&app, &full, &options).await;
    assert_eq!((again.cached, count(&again, F32)), (true, 6));
}

#[tokio::test]
async fn a_scan_is_stored_with_the_precision_that_the_run_used() {
    let app = TestApp::start().await;
    let options = embedding(&app);
    let full = app.app.pipeline.clone();
    let fell_back = scan(&app, &in_bf16(&full, Some(0)), &options).await;
    assert_eq!((fell_back.cached, count(&fell_back, F32)), (false, 6));
    assert!(!scan(&app, &in_bf16(&full, None), &options).await.cached);
    assert!(scan(&app, &full, &options).await.cached);
}

#[tokio::test]
async fn a_scan_of_two_precisions_is_stored_but_answers_no_request() {
    let app = TestApp::start().await;
    let options = embedding(&app);
    let full = app.app.pipeline.clone();
    let mixed = scan(&app, &in_bf16(&full, Some(3)), &options).await;
    assert_eq!((count(&mixed, Bf16), count(&mixed, F32)), (3, 3));
    for face in &mixed.faces {
        let stored = app.app.store.face("default", face.id.unwrap());
        let stored = stored.await.unwrap().unwrap().embedding.unwrap();
        let answered = face.embedding.as_ref().unwrap();
        assert_eq!(Some(stored.precision), answered.precision);
    }
    assert!(!scan(&app, &full, &options).await.cached);
    assert!(!scan(&app, &in_bf16(&full, None), &options).await.cached);
}
