//! Measures what the engine adds to a run of a model: claiming and committing rows, the batcher, the pool and the answer.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use facescan_clock::SystemClock;
use facescan_inference::pool::CpuPool;
use facescan_inference::{
    backend::fake::FakeBackend,
    engine::{BatchSizes, Engine, EngineParts, Grouping, Sessions},
    placement::DevicePlacement,
    tensor::{Signature, Tensor},
};
use facescan_telemetry::metrics::Metrics;

const ROW: [usize; 1] = [16];

/// An engine whose model takes no time.
fn engine() -> Engine {
    let signature = Signature {
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    let backend = FakeBackend::new(signature, |batch| {
        Ok(vec![Tensor {
            name: "out".to_owned(),
            shape: vec![batch.rows(), 1],
            data: vec![0.0; batch.rows()],
        }])
    });
    let two = NonZeroUsize::MIN.saturating_add(1);
    Engine::start(EngineParts {
        sessions: Sessions {
            per_worker: backend.on_cpu(two.get()),
            all_cores: None,
            replacement: None,
            placement: DevicePlacement::CPU,
        },
        grouping: Grouping {
            max_rows: NonZeroUsize::MIN.saturating_add(7),
            sizes: BatchSizes::Any,
            max_delay: Duration::ZERO,
        },
        device: None,
        usual_row_len: ROW[0],
        pool: Arc::new(CpuPool::new(two).expect("threads")),
        clock: Arc::new(SystemClock::start()),
        metrics: Metrics::default().engine("face_embedding"),
    })
}

fn rows(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let engine = {
        let _entered = runtime.enter();
        engine()
    };
    for count in [1, 64] {
        criterion.bench_function(&format!("engine/{count} rows"), |b| {
            b.iter(|| {
                runtime.block_on(async {
                    let pending: Vec<_> = (0..count)
                        .map(|_| {
                            let mut row = engine.claim(&ROW);
                            row.values().fill(1.0);
                            row.commit()
                        })
                        .collect();
                    for answer in pending {
                        answer.await.expect("an answer");
                    }
                });
            });
        });
    }
}

criterion_group!(batching, rows);
criterion_main!(batching);
