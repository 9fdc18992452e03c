use std::{
    future::poll_fn,
    sync::mpsc,
    task::{Context, Poll, Waker},
};

use super::*;
use crate::log_recorder::LogRecorder;

pub(super) fn pool(threads: usize) -> CpuPool {
    CpuPool::new(threads.try_into().unwrap()).unwrap()
}

/// Occupies one thread of the pool until the returned sender is used or dropped.
pub(super) fn occupy(
    pool: &CpuPool,
) -> (
    mpsc::Sender<()>,
    impl Future<Output = Result<(), PoolError>>,
) {
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let running = pool.run(Stage::Infer, move || {
        started.send(()).unwrap();
        let _ = released.recv();
    });
    has_started.recv().unwrap();
    (release, running)
}

#[tokio::test]
async fn results_come_back_from_other_threads() {
    let pool = pool(2);
    let caller = thread::current().id();
    let (a, b) = tokio::join!(
        pool.run(Stage::Begin, || thread::current().id()),
        pool.run(Stage::Begin, || 6 * 7)
    );
    assert_ne!(a.unwrap(), caller);
    assert_eq!(b, Ok(42));
    assert_eq!(pool.threads(), 2);
}

#[tokio::test]
async fn a_panic_ends_only_its_own_job() {
    let pool = pool(1);
    pool.spawn(Stage::Finish, || panic!("on purpose"));
    assert_eq!(
        pool.run(Stage::Begin, || panic!("on purpose")).await,
        Err::<(), _>(PoolError::Panicked)
    );
    assert_eq!(pool.run(Stage::Begin, || 1).await, Ok(1));
}

#[tokio::test]
async fn a_job_nobody_waits_for_is_skipped() {
    let pool = pool(1);
    let (release, running) = occupy(&pool);
    let (ran, has_run) = mpsc::channel();
    drop(pool.run(Stage::Begin, move || ran.send(()).unwrap()));
    drop(release);
    running.await.unwrap();
    assert_eq!(pool.run(Stage::Begin, || 2).await, Ok(2));
    assert!(has_run.recv().is_err(), "the job was dropped, not run");
}

#[tokio::test]
async fn later_stages_go_first() {
    let pool = pool(1);
    let (release, running) = occupy(&pool);
    let (log, order) = mpsc::channel();
    let jobs: Vec<_> = [Stage::Begin, Stage::Infer, Stage::Begin, Stage::Finish]
        .into_iter()
        .map(|stage| {
            let log = log.clone();
            pool.run(stage, move || log.send(stage).unwrap())
        })
        .collect();
    drop(release);
    running.await.unwrap();
    futures::future::join_all(jobs).await;
    drop(log);
    let order: Vec<Stage> = order.iter().collect();
    assert_eq!(
        order,
        [Stage::Finish, Stage::Infer, Stage::Begin, Stage::Begin]
    );
}

#[tokio::test]
async fn a_job_can_run_another_one_next_on_its_own_thread() {
    let pool = Arc::new(pool(2));
    let (log, order) = mpsc::channel();
    let (owner, first) = (Arc::clone(&pool), log.clone());
    pool.run(Stage::Begin, move || {
        let here = thread::current().id();
        let asks = Arc::clone(&owner);
        owner.spawn_next(Stage::Infer, move || {
            let is_here = thread::current().id() == here;
            first.send(is_here && asks.is_quiet()).unwrap();
        });
    })
    .await
    .unwrap();
    assert_eq!(order.recv(), Ok(true));
    // On another thread the job is queued like any other.
    pool.spawn_next(Stage::Infer, move || log.send(false).unwrap());
    assert_eq!(order.recv(), Ok(false));
}

#[tokio::test]
async fn a_job_can_tell_that_no_other_runs() {
    let pool = Arc::new(pool(2));
    let asks = Arc::clone(&pool);
    assert_eq!(
        pool.run(Stage::Infer, move || asks.is_quiet()).await,
        Ok(true)
    );
    let (release, running) = occupy(&pool);
    let asks = Arc::clone(&pool);
    assert_eq!(
        pool.run(Stage::Infer, move || asks.is_quiet()).await,
        Ok(false)
    );
    drop(release);
    running.await.unwrap();
}

#[tokio::test]
async fn the_server_waits_for_a_turn_only_if_the_pool_is_busy() {
    let pool = pool(2);
    let (first, first_ends) = occupy(&pool);
    pool.next_turn(Stage::Finish).await;
    let (second, second_ends) = occupy(&pool);
    let mut turn = Box::pin(pool.next_turn(Stage::Finish));
    let mut context = Context::from_waker(Waker::noop());
    assert!(turn.as_mut().poll(&mut context).is_pending());
    drop(second);
    turn.await;
    drop(first);
    let (first, second) = tokio::join!(first_ends, second_ends);
    assert_eq!((first, second), (Ok(()), Ok(())));
}

#[tokio::test]
async fn shutdown_drops_jobs_that_have_not_started() {
    let pool = pool(1);
    let (release, running) = occupy(&pool);
    let queued = pool.run(Stage::Begin, || 2);
    pool.shutdown();
    assert_eq!(pool.run(Stage::Begin, || 4).await, Err(PoolError::Closed));
    release.send(()).unwrap();
    assert_eq!(running.await, Ok(()), "a running job finishes");
    assert_eq!(queued.await, Err(PoolError::Closed));
}

#[tokio::test]
async fn dropping_the_pool_joins_its_threads_even_while_a_result_is_awaited() {
    let pool = pool(3);
    let shared = Arc::downgrade(&pool.shared);
    let mut result = Box::pin(pool.run(Stage::Begin, || 5));
    let first = result
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    drop(pool);
    if let Poll::Ready(result) = first {
        assert_eq!(result, Ok(5));
    } else {
        let result = poll_fn(|context| result.as_mut().poll(context)).await;
        assert!(matches!(result, Ok(5) | Err(PoolError::Closed)));
    }
    assert!(shared.upgrade().is_none(), "a thread still holds the state");
}

#[tokio::test]
async fn the_load_counts_waiting_jobs_and_busy_threads() {
    let pool = pool(1);
    let load = pool.load();
    assert_eq!(load(), PoolLoad::default());
    let (release, running) = occupy(&pool);
    let queued = pool.run(Stage::Begin, || 2);
    assert_eq!(
        load(),
        PoolLoad {
            waiting: 1,
            busy: 1
        }
    );
    drop(release);
    running.await.unwrap();
    assert_eq!(queued.await, Ok(2));
    drop(pool);
    assert_eq!(load(), PoolLoad::default(), "the pool is gone");
}

#[tokio::test]
async fn jobs_and_futures_run_in_the_span_of_their_caller() {
    let log = LogRecorder::install();
    let pool = pool(1);
    let span = tracing::info_span!("request", request_id = "span-of-the-pool");
    let (job, future) = span.in_scope(|| {
        let job = pool.run(Stage::Begin, || tracing::warn!("written by the job"));
        let future = pool.drive(None, Stage::Begin, async {
            tokio::task::yield_now().await;
            tracing::warn!("written by the future");
        });
        (job, future)
    });
    job.await.unwrap();
    future.await.unwrap();
    let lines = log.lines_with("span-of-the-pool");
    for message in ["written by the job", "written by the future"] {
        assert!(lines.iter().any(|line| line.contains(message)), "{lines:?}");
    }
}
