use std::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
    mpsc,
};

use futures::future::poll_fn;

use super::*;
use crate::device::testing::health;
use facescan_clock::SystemClock;

/// A session is the number of sessions that were opened before it.
type Session = u32;

fn shape() -> ShapeKey {
    ShapeKey {
        graph: "test",
        lengths: vec![1],
    }
}

fn failure(fault: Fault) -> Failure {
    Failure {
        fault,
        detail: "on purpose".to_owned(),
    }
}

/// Returns a device that goes down after three failures and whose probe returns `probe`.
fn device(
    run_timeout: Duration,
    probe: impl Fn() -> Result<f64, Failure> + Send + Sync + 'static,
) -> Arc<Supervisor<Session>> {
    let opened = AtomicU32::new(1);
    let parts = SupervisorParts {
        placement: DevicePlacement::CPU,
        open: Arc::new(move || Ok(opened.fetch_add(1, Ordering::SeqCst))),
        health: health(1),
        probe: Arc::new(move |_: &mut Session| probe()),
        run_timeout,
        check_every: None,
        clock: Arc::new(SystemClock::start()),
        changed: Arc::new(Notify::new()),
    };
    Supervisor::start(parts, || Ok(0))
}

const MINUTE: Duration = Duration::from_secs(60);

/// Runs `job` and reports a failure to the supervisor.
async fn run<T: Send + 'static>(
    device: &Arc<Supervisor<Session>>,
    job: impl FnOnce(&mut Session) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Fault> {
    let dispatch = device.acquire().await.ok_or(Fault::Down)?;
    let slot = dispatch.slot();
    device.run(dispatch, shape(), job).await.map_err(|failure| {
        let fault = failure.fault;
        device.failed(&slot, failure, 1);
        fault
    })
}

#[tokio::test]
async fn a_failure_opens_a_new_session_and_out_of_memory_keeps_the_old_one() {
    let device = device(MINUTE, || Ok(1.0));
    let fails = |fault| move |_: &mut Session| Err::<(), _>(failure(fault));
    assert_eq!(run(&device, |session| Ok(*session)).await, Ok(0));
    let outcome = run(&device, fails(Fault::OutOfMemory)).await;
    assert_eq!(outcome, Err(Fault::OutOfMemory));
    assert_eq!(run(&device, |session| Ok(*session)).await, Ok(0));
    let outcome = run(&device, fails(Fault::Failed)).await;
    assert_eq!(outcome, Err(Fault::Failed));
    assert_eq!(run(&device, |session| Ok(*session)).await, Ok(1));
}

#[tokio::test]
async fn a_late_success_or_failure_does_not_bring_a_down_device_back() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let device = device(MINUTE, move || {
        let _ = released.lock().unwrap().recv();
        Ok(1.0)
    });
    let dispatch = device.acquire().await.unwrap();
    let old = dispatch.slot();
    drop(dispatch);
    device.failed(&old, failure(Fault::WrongAnswer), 1);
    device.succeeded(1);
    device.failed(&old, failure(Fault::OutOfMemory), 1);
    assert!(!device.health().is_up());
    assert!(device.acquire().await.is_none());
    release.send(()).unwrap();
    device.parts.changed.notified().await;
    // The first notification is sent when the device goes down.
    if !device.health().is_up() {
        device.parts.changed.notified().await;
    }
    assert!(device.acquire().await.is_some());
}

#[tokio::test]
async fn jobs_that_wait_for_a_hung_worker_learn_that_the_device_is_down() {
    let (release, released) = mpsc::channel::<()>();
    let device = device(Duration::from_millis(1), || Err(failure(Fault::Failed)));
    let hangs = run(&device, move |_| {
        let _ = released.recv();
        Ok(())
    });
    let mut hangs = Box::pin(hangs);
    let mut waits = Box::pin(device.acquire());
    poll_fn(|context| {
        assert!(hangs.as_mut().poll(context).is_pending());
        assert!(waits.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    assert_eq!(hangs.await, Err(Fault::Hung));
    assert!(waits.await.is_none());
    drop(release);
}
