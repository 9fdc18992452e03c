use std::sync::{
    atomic::{AtomicBool, AtomicUsize, Ordering},
    mpsc,
};

use futures::{FutureExt, future::join_all};

use super::*;
use crate::metrics::recorder::Recorder;
use crate::pool::{CpuPool, Stage};
use crate::{breaker::Patience, place::Precision};
use facescan_clock::SystemClock;

const CUDA: Place = Place {
    provider: Provider::Cuda,
    index: 0,
    precision: Precision::Full,
};

/// Doubles a number; the device does what it is told to instead.
struct Doubling {
    number: u32,
    told: Arc<Told>,
}

type Told = dyn Fn(u32) -> Result<u32, BackendError> + Send + Sync;

impl PictureWork for Doubling {
    type Answer = u32;

    fn sizes(&self) -> Sizes {
        Sizes {
            graph: "doubling",
            lengths: vec![self.number],
        }
    }

    fn run_on_device(&self, _graphs: &mut Graphs) -> Result<u32, BackendError> {
        (self.told)(self.number)
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
    lane: PictureLane,
    health: Arc<Health>,
    told: Arc<Told>,
    pool: CpuPool,
    metrics: Recorder,
}

#[derive(Clone, Copy)]
struct Setting {
    run_timeout: Duration,
    check_every: u64,
    trip_after: u32,
}

const USUAL: Setting = Setting {
    run_timeout: Duration::from_secs(60),
    check_every: 0,
    trip_after: 3,
};

fn rig(
    setting: Setting,
    told: impl Fn(u32) -> Result<u32, BackendError> + Send + Sync + 'static,
) -> Rig {
    let told: Arc<Told> = Arc::new(told);
    let patience = Patience {
        failures: setting.trip_after,
        cool_down: Duration::from_millis(1),
        longest: Duration::from_millis(4),
    };
    let health = Arc::new(Health::new(patience, 1));
    let known = Doubling {
        number: 1000,
        told: Arc::clone(&told),
    };
    let device = PictureDevice {
        place: CUDA,
        open: Arc::new(|_| Err(no_graph())),
        health: Arc::clone(&health),
        probe: probe([known]),
        run_timeout: setting.run_timeout,
        check_every: NonZeroU64::new(setting.check_every),
    };
    let metrics = Recorder::default();
    let lane = PictureLane::new(
        Some(device),
        Arc::new(SystemClock::start()),
        Arc::new(metrics.clone()),
    );
    Rig {
        lane,
        health,
        told,
        pool: CpuPool::new(2.try_into().unwrap()).unwrap(),
        metrics,
    }
}

fn no_graph() -> BackendError {
    BackendError::Unavailable {
        detail: "there are no graphs here".to_owned(),
    }
}

fn out_of_memory() -> BackendError {
    BackendError::OutOfMemory {
        detail: "on purpose".to_owned(),
    }
}

fn failed() -> BackendError {
    BackendError::Run {
        detail: "on purpose".to_owned(),
    }
}

impl Rig {
    /// Does a piece of work as the pipeline does, and checks that nothing was lost.
    async fn double(&self, number: u32) -> Option<Fault> {
        let work = Arc::new(Doubling {
            number,
            told: Arc::clone(&self.told),
        });
        let lane = self.lane.clone();
        let driven = self
            .pool
            .drive(Stage::Begin, async move { lane.run(work).await });
        let done = driven.await.unwrap();
        assert_eq!(done.answer, number * 2);
        done.fallback
    }

    async fn until_recovered(&self) {
        while self.double(3).await.is_some() {}
    }

    fn fallbacks(&self, fault: Fault) -> u64 {
        let report = self.health.report(Duration::ZERO);
        report.fallbacks.get(fault.name()).copied().unwrap_or(0)
    }
}

#[tokio::test]
async fn without_a_device_the_cpu_does_it() {
    let metrics = Recorder::default();
    let lane = PictureLane::new(
        None,
        Arc::new(SystemClock::start()),
        Arc::new(metrics.clone()),
    );
    assert!(!lane.has_device());
    let work = Doubling {
        number: 4,
        told: Arc::new(|_| Err(failed())),
    };
    let done = lane.run(Arc::new(work)).await;
    assert_eq!((done.answer, done.fallback), (8, None));
    assert_eq!(metrics.sum("rows cpu"), 1);
}

#[tokio::test]
async fn the_device_does_many_pieces_one_at_a_time() {
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
async fn what_the_device_fails_on_the_cpu_does_once() {
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
    assert_eq!(rig.fallbacks(Fault::Failed), 2);
    assert_eq!(rig.metrics.sum("fell_back out_of_memory"), 1);
}

#[tokio::test]
async fn failures_in_a_row_take_it_down_and_a_probe_brings_it_back() {
    let calls = AtomicUsize::new(0);
    let rig = rig(USUAL, move |number| {
        // Two probes fail too.
        if calls.fetch_add(1, Ordering::SeqCst) < 5 {
            Err(failed())
        } else {
            Ok(number * 2)
        }
    });
    for _ in 0..3 {
        assert!(rig.double(5).await.is_some());
    }
    rig.until_recovered().await;
    assert!(rig.health.is_up());
    assert_eq!(rig.fallbacks(Fault::Failed), 3);
}

#[tokio::test]
async fn a_wrong_answer_is_found_and_never_given() {
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

#[tokio::test]
async fn a_hang_is_given_up_and_those_who_wait_behind_it_are_answered() {
    let (release, held) = mpsc::channel::<()>();
    let (held, calls) = (Mutex::new(held), AtomicUsize::new(0));
    let setting = Setting {
        run_timeout: Duration::from_millis(2),
        ..USUAL
    };
    let rig = rig(setting, move |number| {
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            let _ = held.lock().unwrap().recv();
        }
        Ok(number * 2)
    });
    let faults = join_all((0..8).map(|number| rig.double(number))).await;
    let hung = faults.iter().filter(|fault| **fault == Some(Fault::Hung));
    assert_eq!(hung.count(), 1, "{faults:?}");
    rig.until_recovered().await;
    drop(release);
}

#[tokio::test]
async fn a_hang_is_noticed_when_its_caller_has_left() {
    let (release, held) = mpsc::channel::<()>();
    let (began, has_begun) = mpsc::channel::<()>();
    let (held, calls) = (Mutex::new(held), AtomicUsize::new(0));
    let setting = Setting {
        run_timeout: Duration::from_millis(2),
        ..USUAL
    };
    let rig = rig(setting, move |number| {
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            began.send(()).unwrap();
            let _ = held.lock().unwrap().recv();
        }
        Ok(number * 2)
    });
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
async fn a_graph_is_built_once_and_a_refusal_is_told() {
    let mut graphs = Graphs::new(Arc::new(|_| Err(no_graph())));
    let model = || GraphModel {
        name: "none",
        bytes: Vec::new(),
    };
    assert!(graphs.session("none", model).is_err());
    assert!(graphs.assignment().is_empty());
}
