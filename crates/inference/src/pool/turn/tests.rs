use std::{pin::Pin, sync::mpsc, thread, time::Duration};

use facescan_imaging::checkpoint::passed;

use crate::pool::{CpuPool, PoolError, PoolOptions, Stage, Tenant};

/// Reports so much work that the hook is called.
fn checkpoint() {
    passed(usize::MAX);
}

/// Returns a pool whose jobs give up their turns at every checkpoint while others wait.
fn pool(turns: usize) -> CpuPool {
    let options = PoolOptions {
        slice: Duration::ZERO,
        ..PoolOptions::new(turns.try_into().unwrap())
    };
    CpuPool::with_options(options).unwrap()
}

fn tenant(name: &str) -> Tenant {
    Some(name.into())
}

/// Runs a job of alice that waits for `go` and then passes three checkpoints. It logs its name before each.
fn long_job(
    pool: &CpuPool,
    name: &'static str,
    log: &mpsc::Sender<&'static str>,
) -> (
    mpsc::Sender<()>,
    impl Future<Output = Result<(), PoolError>> + use<>,
) {
    let (go, wait) = mpsc::channel::<()>();
    let log = log.clone();
    let job = pool.run_for(tenant(name), Stage::Begin, move || {
        wait.recv().unwrap();
        for _ in 0..3 {
            log.send(name).unwrap();
            checkpoint();
        }
    });
    (go, job)
}

/// Waits until a job is paused and the next one runs.
fn wait_for_pause(pool: &CpuPool) {
    let has_paused = || {
        let queue = pool.shared.queue();
        queue.paused == 1 && queue.load().busy == 1
    };
    while !has_paused() {
        thread::yield_now();
    }
}

#[tokio::test]
async fn long_jobs_of_two_tenants_take_turns() {
    let pool = pool(1);
    let (log, order) = mpsc::channel();
    let (go, alice) = long_job(&pool, "alice", &log);
    let (start, bob) = long_job(&pool, "bob", &log);
    start.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!((alice.await, bob.await), (Ok(()), Ok(())));
    drop(log);
    let order: Vec<_> = order.iter().collect();
    assert_eq!(order, ["alice", "bob", "alice", "bob", "alice", "bob"]);
    assert!(
        pool.shared.queue().threads <= 3,
        "both can be paused for a moment"
    );
}

#[tokio::test]
async fn a_job_keeps_its_turn_if_no_other_waits() {
    let pool = pool(1);
    let here = || thread::current().id();
    let both = pool.run(Stage::Begin, move || {
        let before = here();
        checkpoint();
        (before, here())
    });
    let (before, after) = both.await.unwrap();
    assert_eq!(before, after);
    assert_eq!(pool.shared.queue().threads, 1);
}

#[tokio::test]
async fn a_job_and_a_future_that_nobody_waits_for_end_at_their_next_checkpoint() {
    for is_future in [false, true] {
        let pool = pool(1);
        let (started, has_started) = mpsc::channel();
        let (ends, has_ended) = mpsc::channel::<()>();
        let endless = move || {
            let _ends = ends;
            started.send(()).unwrap();
            loop {
                checkpoint();
            }
        };
        let running: Pin<Box<dyn Future<Output = Result<(), PoolError>>>> = if is_future {
            Box::pin(pool.drive(tenant("alice"), Stage::Begin, async move {
                tokio::task::yield_now().await;
                endless()
            }))
        } else {
            Box::pin(pool.run(Stage::Begin, endless))
        };
        has_started.recv().unwrap();
        drop(running);
        assert_eq!(has_ended.recv(), Err(mpsc::RecvError), "it was unwound");
        assert_eq!(pool.run(Stage::Begin, || 1).await, Ok(1));
    }
}

#[tokio::test]
async fn a_paused_job_that_nobody_waits_for_ends_when_its_turn_comes() {
    let pool = pool(1);
    let (log, order) = mpsc::channel();
    let (go, alice) = long_job(&pool, "alice", &log);
    let (start, bob) = long_job(&pool, "bob", &log);
    go.send(()).unwrap();
    wait_for_pause(&pool);
    drop(alice);
    start.send(()).unwrap();
    assert_eq!(bob.await, Ok(()));
    drop(log);
    let order: Vec<_> = order.iter().collect();
    assert_eq!(order, ["alice", "bob", "bob", "bob"]);
}

#[tokio::test]
async fn a_paused_job_panics_and_finishes_like_any_other() {
    let pool = pool(1);
    let (go, wait) = mpsc::channel::<()>();
    let panics = pool.run_for(tenant("alice"), Stage::Begin, move || {
        wait.recv().unwrap();
        checkpoint();
        panic!("on purpose");
    });
    let other = pool.run_for(tenant("bob"), Stage::Begin, || 2);
    go.send(()).unwrap();
    assert_eq!(other.await, Ok(2));
    assert_eq!(panics.await, Err::<(), _>(PoolError::Panicked));
    assert_eq!(pool.run(Stage::Begin, || 3).await, Ok(3));
}

#[tokio::test]
async fn a_paused_job_finishes_after_the_pool_is_shut_down() {
    let pool = pool(1);
    let (log, _order) = mpsc::channel();
    let (go, alice) = long_job(&pool, "alice", &log);
    let (start, bob) = long_job(&pool, "bob", &log);
    let late = pool.run(Stage::Begin, || ());
    go.send(()).unwrap();
    wait_for_pause(&pool);
    pool.shutdown();
    start.send(()).unwrap();
    assert_eq!((alice.await, bob.await), (Ok(()), Ok(())));
    assert_eq!(late.await, Err(PoolError::Closed));
    let shared = std::sync::Arc::downgrade(&pool.shared);
    drop(pool);
    assert!(shared.upgrade().is_none(), "a thread still holds the state");
}

#[tokio::test]
async fn the_next_job_of_a_paused_job_is_queued() {
    let pool = std::sync::Arc::new(pool(1));
    let (go, wait) = mpsc::channel::<()>();
    let (log, order) = mpsc::channel();
    let owner = std::sync::Arc::clone(&pool);
    let first = pool.run_for(tenant("alice"), Stage::Begin, move || {
        wait.recv().unwrap();
        let next = log.clone();
        owner.spawn_next(Stage::Infer, move || next.send("next").unwrap());
        checkpoint();
        log.send("first").unwrap();
    });
    let other = pool.run_for(tenant("bob"), Stage::Begin, || ());
    go.send(()).unwrap();
    assert_eq!((first.await, other.await), (Ok(()), Ok(())));
    assert_eq!(order.iter().take(2).collect::<Vec<_>>(), ["next", "first"]);
}

#[tokio::test]
async fn many_long_jobs_finish_on_few_turns() {
    let pool = pool(3);
    let jobs = (0..40).map(|index| {
        let name = format!("tenant {}", index % 5);
        pool.run_for(tenant(&name), Stage::Begin, move || {
            for _ in 0..20 {
                checkpoint();
            }
            index
        })
    });
    let done = futures::future::join_all(jobs.collect::<Vec<_>>()).await;
    assert!(
        done.into_iter()
            .enumerate()
            .all(|(at, done)| done == Ok(at))
    );
    let queue = pool.shared.queue();
    assert!(queue.threads <= 3 + super::MAX_PAUSED);
    assert_eq!((queue.load().waiting, queue.paused), (0, 0));
}
