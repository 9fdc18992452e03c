use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{FutureExt, future::join_all};
use proptest::{prelude::*, test_runner::TestRunner};

use super::testing::{ROW, grouping, parts, send, sum_of, sums};
use super::*;
use crate::{
    backend::fake::FakeBackend,
    metrics::recorder::Recorder,
    placement::{Precision, Provider},
    pool::Stage,
    tensor::Signature,
};

struct Rig {
    engine: Engine,
    pool: Arc<CpuPool>,
    metrics: Recorder,
}

fn rig(backend: &FakeBackend, sessions: usize, max_rows: usize, sizes: BatchSizes) -> Rig {
    let metrics = Recorder::default();
    let parts = EngineParts {
        grouping: grouping(max_rows, sizes),
        metrics: Arc::new(metrics.clone()),
        ..parts(backend.on_cpu(sessions))
    };
    Rig {
        pool: Arc::clone(&parts.pool),
        engine: Engine::start(parts),
        metrics,
    }
}

#[tokio::test]
async fn a_fixed_batch_graph_sees_only_its_own_batch_size() {
    let backend = FakeBackend::new(Signature::default(), |batch| {
        assert_eq!(batch.rows(), 2);
        Ok(sums(batch))
    });
    let rig = rig(&backend, 1, 2, BatchSizes::Fixed);
    let pending: Vec<_> = (0..5u8)
        .map(|value| send(&rig.engine, value.into()))
        .collect();
    for (value, output) in join_all(pending).await.into_iter().enumerate() {
        assert_eq!(sum_of(&output.unwrap()), value as f32 + 1.0);
    }
}

#[tokio::test]
async fn outputs_without_a_batch_dimension_for_one_row_get_one() {
    // SCRFD returns `[cells, 1]` for a batch of one.
    let backend = FakeBackend::new(Signature::default(), |batch| {
        Ok(vec![Tensor {
            name: "scores".into(),
            shape: vec![2, 1],
            data: batch.data.to_vec(),
        }])
    });
    let output = send(&rig(&backend, 1, 1, BatchSizes::Fixed).engine, 7.0)
        .await
        .unwrap();
    assert_eq!(output.outputs[0].shape, [1, 2, 1]);
    assert_eq!(output.outputs[0].row(output.row), [7.0, 1.0]);
}

#[tokio::test]
async fn a_failed_run_and_a_panic_are_errors_and_the_engine_keeps_running() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let backend = FakeBackend::new(Signature::default(), move |batch| {
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Err(BackendError::run("first")),
            1 => panic!("on purpose"),
            _ => Ok(sums(batch)),
        }
    });
    let rig = rig(&backend, 1, 4, BatchSizes::Any);
    for _ in 0..2 {
        let error = send(&rig.engine, 1.0).await.unwrap_err();
        assert!(matches!(error, EngineError::Backend(_)), "{error}");
    }
    assert_eq!(sum_of(&send(&rig.engine, 1.0).await.unwrap()), 2.0);
}

#[tokio::test]
async fn rows_committed_during_a_run_share_the_next_batch_and_abandoned_rows_are_skipped() {
    let (entered_sender, entered) = flume::bounded(1);
    let (release, gate) = flume::bounded::<()>(1);
    let batches = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&batches);
    let backend = FakeBackend::new(Signature::default(), move |batch| {
        let mut seen = seen.lock().unwrap();
        seen.push(batch.rows());
        if seen.len() == 1 {
            entered_sender.send(()).unwrap();
            gate.recv().unwrap();
        }
        Ok(sums(batch))
    });
    let rig = rig(&backend, 1, 8, BatchSizes::Any);
    let first = send(&rig.engine, 0.0);
    entered.recv_async().await.unwrap();
    // The session is busy, so these rows wait. One of their callers leaves.
    let mut later: Vec<_> = (1..=4u8)
        .map(|value| send(&rig.engine, value.into()))
        .collect();
    drop(later.remove(1));
    release.send(()).unwrap();
    assert_eq!(sum_of(&first.await.unwrap()), 1.0);
    let sums: Vec<f32> = join_all(later)
        .await
        .into_iter()
        .map(|output| sum_of(&output.unwrap()))
        .collect();
    assert_eq!(sums, [2.0, 4.0, 5.0]);
    assert_eq!(*batches.lock().unwrap(), [1, 3]);
    assert_eq!(rig.metrics.sum("skipped"), 1);
}

#[tokio::test]
async fn a_single_row_runs_on_all_cores_and_rows_under_load_on_one_session_per_worker() {
    let named = |output: f32| {
        FakeBackend::new(Signature::default(), move |batch| {
            Ok(vec![Tensor {
                name: "who".into(),
                shape: vec![batch.rows(), 1],
                data: vec![output; batch.rows()],
            }])
        })
        .on_cpu(1)
    };
    let pool = Arc::new(CpuPool::new(2.try_into().unwrap()).unwrap());
    let mut parts = EngineParts {
        pool: Arc::clone(&pool),
        ..parts(named(1.0))
    };
    parts.sessions.all_cores = named(9.0).pop();
    let engine = Engine::start(parts);
    assert_eq!(sum_of(&send(&engine, 0.0).await.unwrap()), 9.0);
    // Another job occupies the other thread.
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (started, has_started) = std::sync::mpsc::channel();
    let busy = pool.run(Stage::Begin, move || {
        started.send(()).unwrap();
        released.recv()
    });
    has_started.recv().unwrap();
    assert_eq!(sum_of(&send(&engine, 0.0).await.unwrap()), 1.0);
    drop(release);
    assert!(busy.await.unwrap().is_err());
}

/// What happens to one row of a mix.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It is written and its caller waits.
    Kept,
    /// It is written, and its run fails.
    Poisoned,
    /// It is claimed and never written.
    GivenUp,
    /// It is written and its caller leaves.
    Abandoned,
}

const POISON: f32 = -1.0;

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Kept),
        1 => Just(Fate::Poisoned),
        1 => Just(Fate::GivenUp),
        1 => Just(Fate::Abandoned),
    ]
}

/// Sends a row to its fate. Returns the result that its caller waits for.
fn meet(fate: Fate, engine: &Engine, value: f32) -> Option<Pending> {
    match fate {
        Fate::Kept => Some(send(engine, value)),
        Fate::Poisoned => Some(send(engine, POISON)),
        Fate::GivenUp => {
            drop(engine.claim(&ROW));
            None
        }
        Fate::Abandoned => {
            drop(send(engine, value));
            None
        }
    }
}

/// Runs 1,000 mixes. Every caller that waits gets the result of its own row in every mix.
#[test]
fn no_row_is_lost_or_crossed() {
    let backend = FakeBackend::new(Signature::default(), |batch| {
        if batch
            .data
            .chunks(batch.row_len())
            .any(|row| row[0] == POISON)
        {
            return Err(BackendError::run("poisoned"));
        }
        Ok(sums(batch))
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let mix = (
        1..=3usize,
        1..=6usize,
        prop_oneof![Just(BatchSizes::Any), Just(BatchSizes::Fixed)],
        prop::collection::vec(prop::collection::vec(fate(), 1..6), 1..6),
    );
    let config = ProptestConfig::with_cases(1000);
    TestRunner::new(config)
        .run(&mix, |(sessions, max_rows, sizes, requests)| {
            runtime.block_on(async {
                let rig = rig(&backend, sessions, max_rows, sizes);
                // Each request writes on a thread of the pool, as in the pipeline.
                let requests = requests.into_iter().enumerate().map(|(request, fates)| {
                    let engine = rig.engine.clone();
                    let writing = rig.pool.run(Stage::Begin, move || {
                        let rows = fates.iter().enumerate().map(|(index, fate)| {
                            let value = (request * 100 + index) as f32;
                            (*fate, value, meet(*fate, &engine, value))
                        });
                        rows.collect::<Vec<_>>()
                    });
                    async move {
                        for (fate, value, pending) in writing.await.unwrap() {
                            let Some(pending) = pending else { continue };
                            match (fate, pending.await) {
                                (Fate::Kept, Ok(output)) => {
                                    assert_eq!(sum_of(&output), value + 1.0);
                                }
                                // A poisoned row fails only the rows of its batch.
                                (Fate::Kept | Fate::Poisoned, Err(EngineError::Backend(_))) => {}
                                other => panic!("{other:?}"),
                            }
                        }
                    }
                });
                join_all(requests).await;
                // Nothing is stuck: the engine still runs rows, and none waits.
                assert_eq!(sum_of(&send(&rig.engine, 5.0).await.unwrap()), 6.0);
                assert_eq!(rig.engine.shared.batcher().waiting_for(Route::Cpu), 0);
            });
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn a_row_says_where_it_ran_when_a_replacement_takes_over() {
    let reduced = DevicePlacement::first(Provider::OpenvinoCpu, Precision::Reduced);
    let backend = FakeBackend::with_placements(Signature::default(), move |placement, batch| {
        if placement == reduced && batch.data[0] == POISON {
            return Err(BackendError::run("on purpose"));
        }
        Ok(sums(batch))
    });
    let replacement = backend.clone();
    let mut parts = parts(vec![backend.session(reduced, false)]);
    parts.sessions.placement = reduced;
    parts.sessions.replacement = Some(Arc::new(move || {
        Ok(replacement.session(DevicePlacement::CPU, false))
    }));
    let engine = Engine::start(parts);
    let mut ran_on = Vec::new();
    for value in [1.0, POISON, 1.0] {
        ran_on.push(send(&engine, value).await.unwrap().run.placement);
    }
    assert_eq!(
        ran_on,
        [reduced, DevicePlacement::CPU, DevicePlacement::CPU]
    );
}

#[tokio::test]
async fn a_delay_lets_a_batch_fill_and_a_full_batch_does_not_wait() {
    let backend = FakeBackend::new(Signature::default(), |batch| Ok(sums(batch)));
    let mut parts = parts(backend.on_cpu(1));
    parts.grouping = Grouping {
        max_delay: Duration::from_secs(3600),
        ..grouping(2, BatchSizes::Any)
    };
    let pool = Arc::clone(&parts.pool);
    let engine = Engine::start(parts);
    let mut first = send(&engine, 1.0);
    pool.run(Stage::Begin, || ()).await.unwrap();
    assert!(
        (&mut first).now_or_never().is_none(),
        "it waits for another row"
    );
    let second = send(&engine, 2.0);
    assert_eq!(sum_of(&first.await.unwrap()), 2.0);
    assert_eq!(sum_of(&second.await.unwrap()), 3.0);
}

/// A clock that follows the runtime's time on every thread. A test can pause that time.
struct TokioClock {
    runtime: Handle,
    started: tokio::time::Instant,
}

impl Clock for TokioClock {
    fn monotonic(&self) -> Duration {
        let _context = self.runtime.enter();
        self.started.elapsed()
    }

    fn now(&self) -> time::OffsetDateTime {
        time::OffsetDateTime::UNIX_EPOCH
    }
}

#[tokio::test(start_paused = true)]
async fn one_timer_ends_the_wait_of_all_rows_of_a_batch() {
    let batches = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&batches);
    let backend = FakeBackend::new(Signature::default(), move |batch| {
        seen.lock().unwrap().push(batch.rows());
        Ok(sums(batch))
    });
    let delay = Duration::from_millis(5);
    let engine = Engine::start(EngineParts {
        grouping: Grouping {
            max_delay: delay,
            ..grouping(200, BatchSizes::Any)
        },
        clock: Arc::new(TokioClock {
            runtime: Handle::current(),
            started: tokio::time::Instant::now(),
        }),
        ..parts(backend.on_cpu(1))
    });
    let queue_depth = engine.queue_depth();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let tasks_before = tasks();
    let pending: Vec<_> = (0..100u8)
        .map(|value| send(&engine, value.into()))
        .collect();
    assert_eq!(tasks() - tasks_before, 1, "one timer for the whole batch");
    // The timer starts when its task is first polled.
    tokio::task::yield_now().await;
    tokio::time::advance(delay - Duration::from_millis(1)).await;
    assert_eq!((queue_depth(), batches.lock().unwrap().len()), (100, 0));
    tokio::time::advance(Duration::from_millis(1)).await;
    for (value, output) in join_all(pending).await.into_iter().enumerate() {
        assert_eq!(sum_of(&output.unwrap()), value as f32 + 1.0);
    }
    assert_eq!(*batches.lock().unwrap(), [100]);
    assert_eq!(queue_depth(), 0);
    drop(engine);
    assert_eq!(queue_depth(), 0, "the engine is gone");
}
