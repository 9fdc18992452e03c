use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
    mpsc,
};

use futures::{FutureExt, future::join_all};

use super::*;
use crate::metrics::recorder::Recorder;
use crate::pool::{CpuPool, Stage};
use crate::{
    device::testing::{self, CUDA, Setting, USUAL, failed, fallbacks, out_of_memory},
    graphs::ImageGraph,
};
use facescan_clock::SystemClock;

/// Doubles a number on the CPU. The device runs `device` instead.
struct Doubling {
    number: u32,
    device: Arc<DeviceRun>,
}

type DeviceRun = dyn Fn(u32) -> Result<u32, BackendError> + Send + Sync;

impl ImageJob for Doubling {
    type Output = u32;

    fn shape_key(&self) -> ShapeKey {
        ShapeKey {
            graph: "doubling",
            lengths: vec![self.number],
        }
    }

    fn run_on_device(&self, _graphs: &mut GraphSessions) -> Result<u32, BackendError> {
        (self.device)(self.number)
    }

    fn run_on_cpu(&self) -> u32 {
        self.number * 2
    }

    fn compare(&self, given: &u32, right: &u32) -> Result<f64, String> {
        (given == right)
            .then_some(1.0)
            .ok_or_else(|| format!("{given} is not {right}"))
    }
}

struct Rig {
    executor: ImageExecutor,
    health: Arc<Health>,
    device: Arc<DeviceRun>,
    pool: CpuPool,
    metrics: Recorder,
}

fn rig(
    setting: Setting,
    device: impl Fn(u32) -> Result<u32, BackendError> + Send + Sync + 'static,
) -> Rig {
    let device: Arc<DeviceRun> = Arc::new(device);
    let health = testing::health(1);
    let known = Doubling {
        number: 1000,
        device: Arc::clone(&device),
    };
    let parts = ImageDevice {
        placement: CUDA,
        open: Arc::new(|_| Err(no_graph())),
        health: Arc::clone(&health),
        probe: health_probe([known]),
        run_timeout: setting.run_timeout,
        check_every: NonZeroU64::new(setting.check_every),
    };
    let metrics = Recorder::default();
    let executor = ImageExecutor::new(
        Some(parts),
        Arc::new(SystemClock::start()),
        Arc::new(metrics.clone()),
    );
    Rig {
        executor,
        health,
        device,
        pool: CpuPool::new(2.try_into().unwrap()).unwrap(),
        metrics,
    }
}

fn no_graph() -> BackendError {
    BackendError::unavailable("there are no graphs here")
}

impl Rig {
    /// Runs a job as the pipeline does, and checks its result.
    async fn double(&self, number: u32) -> Option<Fault> {
        let work = Arc::new(Doubling {
            number,
            device: Arc::clone(&self.device),
        });
        let executor = self.executor.clone();
        let driven = self
            .pool
            .drive(None, Stage::Begin, async move { executor.run(work).await });
        let done = driven.await.unwrap();
        assert_eq!(done.output, number * 2);
        done.run.fallback
    }

    async fn until_recovered(&self) {
        while self.double(3).await.is_some() {}
    }
}

#[tokio::test]
async fn without_a_device_the_cpu_runs_the_job() {
    let metrics = Recorder::default();
    let executor = ImageExecutor::new(
        None,
        Arc::new(SystemClock::start()),
        Arc::new(metrics.clone()),
    );
    assert!(!executor.has_device());
    let work = Doubling {
        number: 4,
        device: Arc::new(|_| Err(failed())),
    };
    let done = executor.run(Arc::new(work)).await;
    assert_eq!((done.output, done.run.fallback), (8, None));
    assert_eq!(metrics.sum("rows cpu"), 1);
}

#[tokio::test]
async fn the_device_runs_jobs_one_at_a_time() {
    let busy = AtomicBool::new(false);
    let rig = rig(USUAL, move |number| {
        assert!(!busy.swap(true, Ordering::SeqCst), "two at a time");
        busy.store(false, Ordering::SeqCst);
        Ok(number * 2)
    });
    let faults = join_all((0..50).map(|number| rig.double(number))).await;
    assert!(faults.iter().all(Option::is_none), "{faults:?}");
    assert_eq!(rig.health.report(Duration::ZERO).rows, 50);
    assert_eq!(rig.metrics.sum("rows cuda"), 50);
}

#[tokio::test]
async fn a_job_that_fails_on_the_device_runs_once_on_the_cpu() {
    let rig = rig(USUAL, |number| match number {
        1 => Err(out_of_memory()),
        2 => Err(failed()),
        3 => panic!("on purpose"),
        number => Ok(number * 2),
    });
    assert_eq!(rig.double(1).await, Some(Fault::OutOfMemory));
    assert_eq!(rig.double(9).await, None);
    assert_eq!(rig.double(2).await, Some(Fault::Failed));
    assert_eq!(rig.double(9).await, None, "on a new thread");
    assert_eq!(rig.double(3).await, Some(Fault::Failed));
    assert_eq!(rig.double(9).await, None);
    assert!(rig.health.is_up(), "never three in a row");
    assert_eq!(fallbacks(&rig.health, Fault::Failed), 2);
    assert_eq!(rig.metrics.sum("fell_back out_of_memory"), 1);
}

#[tokio::test]
async fn a_wrong_result_is_detected_and_never_returned() {
    let is_wrong = Arc::new(AtomicBool::new(true));
    let wrong = Arc::clone(&is_wrong);
    let setting = Setting {
        check_every: 1,
        ..USUAL
    };
    let rig = rig(setting, move |number| {
        Ok(number * 2 + u32::from(wrong.load(Ordering::SeqCst)))
    });
    assert_eq!(rig.double(5).await, Some(Fault::WrongAnswer));
    assert_eq!(rig.double(5).await, Some(Fault::Down), "at once");
    is_wrong.store(false, Ordering::SeqCst);
    rig.until_recovered().await;
}

/// Returns a device whose first job hangs until the sender is dropped, and what tells that it hangs.
fn hanging_rig() -> (Rig, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (release, held) = mpsc::channel();
    let (begins, has_begun) = mpsc::channel();
    let (held, calls) = (Mutex::new(held), AtomicUsize::new(0));
    let setting = Setting {
        run_timeout: Duration::from_millis(2),
        ..USUAL
    };
    let rig = rig(setting, move |number| {
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            let _ = begins.send(());
            let _ = held.lock().unwrap().recv();
        }
        Ok(number * 2)
    });
    (rig, release, has_begun)
}

#[tokio::test]
async fn a_hung_job_falls_back_and_the_jobs_behind_it_are_done() {
    let (rig, release, _) = hanging_rig();
    let faults = join_all((0..8).map(|number| rig.double(number))).await;
    let hung = faults.iter().filter(|fault| **fault == Some(Fault::Hung));
    assert_eq!(hung.count(), 1, "{faults:?}");
    rig.until_recovered().await;
    drop(release);
}

#[tokio::test]
async fn a_hang_is_noticed_after_its_caller_has_left() {
    let (rig, release, has_begun) = hanging_rig();
    let mut leaves = Box::pin(rig.double(1));
    assert!((&mut leaves).now_or_never().is_none());
    tokio::task::spawn_blocking(move || has_begun.recv())
        .await
        .unwrap()
        .unwrap();
    drop(leaves);
    assert!(rig.double(2).await.is_some(), "the cpu did it");
    rig.until_recovered().await;
    drop(release);
}

#[tokio::test]
async fn a_refused_graph_is_an_error() {
    let mut graphs = GraphSessions::new(Arc::new(|_| Err(no_graph())));
    assert!(graphs.session(ImageGraph::Quality).is_err());
    assert!(graphs.assignment().is_empty());
}
