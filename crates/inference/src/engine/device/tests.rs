use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use futures::future::join_all;
use proptest::{prelude::*, test_runner::TestRunner};

use super::*;
use crate::{
    backend::{BackendError, fake::FakeBackend},
    device::testing::{self, CUDA, Setting, USUAL, failed, fallbacks, out_of_memory},
    engine::{
        BatchSizes, Engine, EngineParts,
        testing::{ROW, grouping, parts, send, sum_of, sums},
    },
    log_recorder::LogRecorder,
    metrics::recorder::Recorder,
    placement::Precision,
    proof::Tolerance,
    tensor::Signature,
};

type RunResult = Result<Vec<Tensor>, BackendError>;

/// An engine with a device, and what the device saw.
struct Rig {
    engine: Engine,
    health: Arc<Health>,
    /// Rows of each run on the device.
    runs: Arc<Mutex<Vec<usize>>>,
    metrics: Recorder,
}

/// Returns an engine whose device runs up to eight rows with `device`, and whose CPU runs one row at a time.
fn rig(
    setting: Setting,
    device: impl Fn(usize, Batch<'_>) -> RunResult + Send + Sync + 'static,
) -> Rig {
    rig_with(setting, sums, device)
}

/// Returns such an engine whose CPU runs rows with `on_cpu`.
fn rig_with(
    setting: Setting,
    on_cpu: impl Fn(Batch<'_>) -> Vec<Tensor> + Send + Sync + 'static,
    device: impl Fn(usize, Batch<'_>) -> RunResult + Send + Sync + 'static,
) -> Rig {
    let runs = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&runs);
    let backend = FakeBackend::with_placements(Signature::default(), move |placement, batch| {
        if placement == DevicePlacement::CPU {
            return Ok(on_cpu(batch));
        }
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(batch.rows());
            seen.len() - 1
        };
        device(number, batch)
    });
    let mut cpu = backend.on_cpu(2);
    let tolerance = Tolerance::of(Precision::Full);
    let self_test = SelfTest::record(cpu[0].as_mut(), &ROW, 2, tolerance).unwrap();
    let health = testing::health(8);
    let metrics = Recorder::default();
    let open = {
        let backend = backend.clone();
        Arc::new(move || Ok(backend.session(CUDA, false)))
    };
    let engine = Engine::start(EngineParts {
        device: Some(DeviceParts {
            placement: CUDA,
            open,
            session: backend.session(CUDA, false),
            grouping: grouping(8, BatchSizes::Buckets),
            health: Arc::clone(&health),
            self_test: Arc::new(self_test),
            run_timeout: setting.run_timeout,
            must_be_finite: true,
            check_every: NonZeroU64::new(setting.check_every),
        }),
        metrics: Arc::new(metrics.clone()),
        ..parts(cpu)
    });
    Rig {
        engine,
        health,
        runs,
        metrics,
    }
}

impl Rig {
    /// Sends rows that share a batch, and checks every result. Returns why each row ran on the CPU.
    async fn send_together(&self, rows: usize) -> Vec<Option<Fault>> {
        // A batch cannot run while one of its rows is claimed and not yet written.
        let claimed: Vec<_> = (0..rows).map(|_| self.engine.claim(&ROW)).collect();
        let pending: Vec<_> = claimed
            .into_iter()
            .enumerate()
            .map(|(index, mut row)| {
                row.values().copy_from_slice(&[index as f32, 1.0]);
                row.commit()
            })
            .collect();
        let outputs = join_all(pending).await.into_iter().enumerate();
        let faults = outputs.map(|(index, output)| {
            let output = output.unwrap();
            assert_eq!(sum_of(&output), index as f32 + 1.0);
            let on_cpu = output.run.placement == DevicePlacement::CPU;
            assert!(on_cpu || output.run.placement == CUDA);
            assert_eq!(output.run.fallback.is_some(), on_cpu);
            output.run.fallback
        });
        faults.collect()
    }

    /// Sends rows until one runs on the device.
    async fn send_until_recovered(&self) {
        loop {
            let output = send(&self.engine, 1.0).await.unwrap();
            assert_eq!(sum_of(&output), 2.0);
            if output.run.fallback.is_none() {
                return;
            }
        }
    }
}

#[tokio::test]
async fn rows_run_together_on_the_device_in_few_batch_sizes() {
    let rig = rig(USUAL, |_, batch| Ok(sums(batch)));
    for rows in [1, 3, 5, 8] {
        assert_eq!(rig.send_together(rows).await, vec![None; rows]);
    }
    assert_eq!(*rig.runs.lock().unwrap(), [1, 4, 8, 8]);
    assert_eq!(rig.health.report(Duration::ZERO).rows, 17);
    assert_eq!(rig.metrics.sum("rows cuda"), 17);
}

#[tokio::test]
async fn out_of_memory_halves_the_batch_until_it_fits_and_lowers_the_limit() {
    let rig = rig(USUAL, |_, batch| {
        if batch.rows() > 2 {
            Err(out_of_memory())
        } else {
            Ok(sums(batch))
        }
    });
    let outputs = rig.send_together(8).await;
    assert_eq!(outputs, [None; 8], "the device ran them all");
    assert_eq!(*rig.runs.lock().unwrap(), [8, 4, 2, 2, 2, 2]);
    rig.send_together(8).await;
    assert_eq!(
        rig.runs.lock().unwrap()[6..],
        [2, 2, 2, 2],
        "larger batches are not tried again"
    );
    assert_eq!(rig.health.report(Duration::ZERO).batch_size, 2);
    for _ in 0..RUNS_TO_GROW {
        rig.send_together(1).await;
    }
    assert_eq!(
        rig.health.most_rows(),
        4,
        "after some runs a larger batch is tried"
    );
}

#[tokio::test]
async fn a_single_row_that_does_not_fit_runs_on_the_cpu() {
    let rig = rig(USUAL, |_, batch| {
        if batch.data[0] == 0.0 {
            Err(out_of_memory())
        } else {
            Ok(sums(batch))
        }
    });
    let outputs = rig.send_together(4).await;
    assert_eq!(outputs, [Some(Fault::OutOfMemory), None, None, None]);
    assert_eq!(fallbacks(&rig.health, Fault::OutOfMemory), 1);
    assert!(rig.health.is_up());
}

#[tokio::test]
async fn a_failed_batch_runs_on_the_cpu_and_only_consecutive_failures_take_the_device_down() {
    // Every second run fails, on a new session each time.
    let rig = rig(USUAL, |number, batch| {
        if number % 2 == 0 {
            Err(failed())
        } else {
            Ok(sums(batch))
        }
    });
    for _ in 0..10 {
        let first = rig.send_together(3).await;
        assert_eq!(first, [Some(Fault::Failed); 3]);
        assert_eq!(rig.send_together(3).await, [None; 3]);
    }
    assert_eq!(fallbacks(&rig.health, Fault::Failed), 30);
    assert!(rig.health.is_up());
    let report = rig.health.report(Duration::ZERO);
    assert!(report.last_fault.unwrap().contains("on purpose"));
}

#[tokio::test]
async fn a_device_that_is_down_is_probed_until_it_gives_correct_results_and_is_used_again() {
    let broken = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&broken);
    // Three runs fail, then two probes. A third probe returns wrong values.
    let rig = rig(USUAL, move |_, batch| {
        match asked.fetch_add(1, Ordering::SeqCst) {
            0..5 => Err(failed()),
            5 => {
                let mut outputs = sums(batch);
                outputs[0].data.iter_mut().for_each(|value| *value *= 2.0);
                Ok(outputs)
            }
            _ => Ok(sums(batch)),
        }
    });
    for _ in 0..3 {
        assert_eq!(rig.send_together(2).await, [Some(Fault::Failed); 2]);
    }
    rig.send_until_recovered().await;
    assert!(
        broken.load(Ordering::SeqCst) > 6,
        "three runs, three bad probes and a good one"
    );
    assert!(rig.health.is_up());
    assert_eq!(rig.health.report(Duration::ZERO).failures, 0);
}

#[tokio::test]
async fn non_finite_outputs_never_reach_a_caller() {
    let rig = rig(USUAL, |number, batch| {
        let mut outputs = sums(batch);
        if number == 0 {
            outputs[0].data[0] = f32::NAN;
        }
        Ok(outputs)
    });
    assert_eq!(rig.send_together(2).await, [Some(Fault::WrongAnswer); 2]);
    rig.send_until_recovered().await;
}

#[tokio::test]
async fn the_check_catches_a_device_that_starts_to_give_wrong_values() {
    let setting = Setting {
        check_every: 2,
        ..USUAL
    };
    let lies = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&lies);
    let rig = rig(setting, move |number, batch| {
        let mut outputs = sums(batch);
        if number == 3 {
            told.fetch_add(1, Ordering::SeqCst);
            outputs[0].data.iter_mut().for_each(|value| *value += 5.0);
        }
        Ok(outputs)
    });
    for _ in 0..3 {
        assert_eq!(rig.send_together(1).await, [None]);
    }
    let caught = rig.send_together(1).await;
    assert_eq!(caught, [Some(Fault::WrongAnswer)]);
    assert_eq!(lies.load(Ordering::SeqCst), 1);
    rig.send_until_recovered().await;
}

#[tokio::test]
async fn the_check_compares_whole_rows_and_not_each_value() {
    let setting = Setting {
        check_every: 1,
        ..USUAL
    };
    // Rounding is a large share of a value that is almost zero, and nothing of the row.
    let near_zero = |batch: Batch<'_>, value: f32| {
        let mut outputs = sums(batch);
        let rows = outputs[0].data.iter();
        outputs[0].data = rows.flat_map(|sum| [*sum, value]).collect();
        outputs[0].shape[1] = 2;
        outputs
    };
    let rig = rig_with(
        setting,
        move |batch| near_zero(batch, 0.002),
        move |_, batch| Ok(near_zero(batch, 0.00201)),
    );
    for _ in 0..3 {
        assert_eq!(rig.send_together(1).await, [None]);
    }
}

#[tokio::test]
async fn a_hung_run_falls_back_and_its_late_result_is_ignored() {
    let setting = Setting {
        run_timeout: Duration::from_millis(2),
        ..USUAL
    };
    let (release, gate) = flume::bounded::<()>(0);
    let (left, has_left) = flume::bounded(1);
    let rig = rig(setting, move |number, batch| {
        if number == 0 {
            // Blocks until the test releases it.
            gate.recv().ok();
            left.send(()).ok();
        }
        Ok(sums(batch))
    });
    assert_eq!(rig.send_together(3).await, [Some(Fault::Hung); 3]);
    rig.send_until_recovered().await;
    drop(release);
    has_left.recv_async().await.unwrap();
    assert_eq!(rig.send_together(2).await, [None; 2]);
    assert_eq!(fallbacks(&rig.health, Fault::Hung), 3);
}

#[tokio::test]
async fn dropping_the_engine_drops_its_device() {
    let held = Arc::new(());
    let weak = Arc::downgrade(&held);
    let rig = rig(USUAL, move |_, batch| {
        let _held = &held;
        Ok(sums(batch))
    });
    rig.send_together(1).await;
    drop(rig);
    while weak.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}

/// How a run on the device ends.
#[derive(Clone, Copy, Debug)]
enum Behavior {
    Good,
    Fails,
    Panics,
    NoMemory,
    NotANumber,
}

/// Runs 300 devices that fail at random. Each device has many callers, and some of them leave. Every caller that stays
/// gets its own result.
#[test]
fn no_row_is_lost_or_crossed_whatever_the_device_does() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let behavior = prop_oneof![
        5 => Just(Behavior::Good),
        1 => Just(Behavior::Fails),
        1 => Just(Behavior::Panics),
        2 => Just(Behavior::NoMemory),
        1 => Just(Behavior::NotANumber),
    ];
    let mix = (
        prop::collection::vec(behavior, 1..8),
        prop::collection::vec(any::<bool>(), 1..60),
    );
    TestRunner::new(ProptestConfig::with_cases(300))
        .run(&mix, |(behaviors, callers)| {
            runtime.block_on(async {
                let rig = rig(USUAL, move |number, batch| {
                    match behaviors[number % behaviors.len()] {
                        Behavior::Good => Ok(sums(batch)),
                        Behavior::Fails => Err(failed()),
                        Behavior::Panics => panic!("on purpose"),
                        Behavior::NoMemory => Err(out_of_memory()),
                        Behavior::NotANumber => {
                            let mut outputs = sums(batch);
                            outputs[0].data[0] = f32::INFINITY;
                            Ok(outputs)
                        }
                    }
                });
                let pending: Vec<_> = callers
                    .iter()
                    .enumerate()
                    .map(|(index, stays)| {
                        let pending = send(&rig.engine, index as f32);
                        stays.then_some((index, pending))
                    })
                    .collect();
                for (index, pending) in pending.into_iter().flatten() {
                    assert_eq!(sum_of(&pending.await.unwrap()), index as f32 + 1.0);
                }
            });
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn warnings_about_a_batch_have_the_fields_of_the_first_callers_span() {
    let log = LogRecorder::install();
    let rig = rig(USUAL, |_, _| {
        tracing::warn!("written during the run");
        Err(failed())
    });
    let span = tracing::info_span!("request", request_id = "span-of-the-batch");
    let row = span.in_scope(|| rig.engine.claim(&ROW));
    let output = row.commit().await.unwrap();
    assert_eq!(output.run.fallback, Some(Fault::Failed));
    let lines = log.lines_with("span-of-the-batch");
    for message in ["written during the run", "falling back to the cpu"] {
        assert!(lines.iter().any(|line| line.contains(message)), "{lines:?}");
    }
}
