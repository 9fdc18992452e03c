//! Threads for decoding and other pixel work, so that the async runtime never waits for them.

use std::future::Future;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// Why a job gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The job panicked. The pool lives on.
    #[error("a job of the cpu pool panicked")]
    Panicked,
    /// The pool was shut down before the job started.
    #[error("the cpu pool is shut down")]
    Closed,
}

type Job = Box<dyn FnOnce(&State) + Send>;

#[derive(Default)]
struct State {
    closed: AtomicBool,
    skipped: AtomicU64,
}

/// A fixed number of threads behind a bounded queue.
///
/// A job whose caller has gone before it starts is skipped. A full queue makes callers wait. Dropping the pool
/// closes it and waits for the jobs that run.
pub struct CpuPool {
    queue: Mutex<Option<flume::Sender<Job>>>,
    threads: Vec<JoinHandle<()>>,
    state: Arc<State>,
}

impl CpuPool {
    /// Starts `threads` threads with room for `queued` jobs that wait.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(threads: NonZeroUsize, queued: NonZeroUsize) -> std::io::Result<Self> {
        let (queue, jobs) = flume::bounded::<Job>(queued.get());
        let mut pool = Self {
            queue: Mutex::new(Some(queue)),
            threads: Vec::with_capacity(threads.get()),
            state: Arc::default(),
        };
        for index in 0..threads.get() {
            let (jobs, state) = (jobs.clone(), Arc::clone(&pool.state));
            let work = move || jobs.iter().for_each(|job| job(&state));
            let name = format!("cpu-{index}");
            // On failure the threads that did start are joined as the pool drops.
            pool.threads
                .push(std::thread::Builder::new().name(name).spawn(work)?);
        }
        Ok(pool)
    }

    /// Runs `job` on a thread of the pool. The job is queued when the future is first polled, and skipped if the
    /// future is dropped before a thread takes it.
    ///
    /// # Errors
    /// [`PoolError`]; the future resolves to it.
    pub fn run<T, F>(&self, job: F) -> impl Future<Output = Result<T, PoolError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let queue = self.queue().clone();
        async move {
            let (answer, result) = oneshot::channel();
            let job: Job = Box::new(move |state| {
                if state.closed.load(Ordering::Acquire) {
                    return;
                }
                if answer.is_closed() {
                    state.skipped.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                let outcome = catch_unwind(AssertUnwindSafe(job)).map_err(|_| PoolError::Panicked);
                // The caller may have gone meanwhile; nobody misses the result then.
                let _ = answer.send(outcome);
            });
            queue
                .ok_or(PoolError::Closed)?
                .send_async(job)
                .await
                .map_err(|_| PoolError::Closed)?;
            // A job that is dropped unrun drops its end of the channel: the pool closed.
            result.await.unwrap_or(Err(PoolError::Closed))
        }
    }

    /// How many jobs were skipped because nobody waited for them any more.
    pub fn skipped(&self) -> u64 {
        self.state.skipped.load(Ordering::Relaxed)
    }

    /// How many jobs wait for a thread.
    pub fn queued(&self) -> usize {
        self.queue().as_ref().map_or(0, flume::Sender::len)
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Refuses new jobs and drops those that have not started: all of them give [`PoolError::Closed`]. Jobs that
    /// run finish and give their results.
    pub fn shutdown(&self) {
        self.state.closed.store(true, Ordering::Release);
        self.queue().take();
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Option<flume::Sender<Job>>> {
        // The guarded option is valid whatever panicked while it was held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CpuPool {
    fn drop(&mut self) {
        self.shutdown();
        for thread in self.threads.drain(..) {
            // A thread catches what its jobs panic with, so it has nothing to report.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    fn pool(threads: usize, queued: usize) -> CpuPool {
        CpuPool::new(threads.try_into().unwrap(), queued.try_into().unwrap()).unwrap()
    }

    fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Occupies the pool's one thread until the returned sender is used or dropped.
    fn occupy(
        pool: &CpuPool,
    ) -> (
        mpsc::Sender<()>,
        std::pin::Pin<Box<impl Future<Output = Result<(), PoolError>> + use<>>>,
    ) {
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let mut running = Box::pin(pool.run(move || {
            started.send(()).unwrap();
            let _ = released.recv();
        }));
        assert!(poll_once(running.as_mut()).is_pending());
        has_started.recv().unwrap();
        (release, running)
    }

    #[tokio::test]
    async fn results_come_back_from_other_threads() {
        let pool = pool(2, 4);
        let caller = std::thread::current().id();
        let (a, b) = tokio::join!(pool.run(|| std::thread::current().id()), pool.run(|| 6 * 7));
        assert_ne!(a.unwrap(), caller);
        assert_eq!(b, Ok(42));
        assert_eq!((pool.threads(), pool.skipped()), (2, 0));
    }

    #[tokio::test]
    async fn a_panic_costs_its_own_job_only() {
        let pool = pool(1, 1);
        assert_eq!(
            pool.run(|| panic!("on purpose")).await,
            Err::<(), _>(PoolError::Panicked)
        );
        assert_eq!(pool.run(|| 1).await, Ok(1));
    }

    #[tokio::test]
    async fn a_job_nobody_waits_for_is_skipped() {
        let pool = pool(1, 2);
        let (release, running) = occupy(&pool);
        let (ran, has_run) = mpsc::channel();
        {
            let mut abandoned = pin!(pool.run(move || ran.send(()).unwrap()));
            assert!(poll_once(abandoned.as_mut()).is_pending());
            assert_eq!(pool.queued(), 1);
        }
        drop(release);
        running.await.unwrap();
        assert_eq!(pool.run(|| 2).await, Ok(2));
        assert_eq!(pool.skipped(), 1);
        assert!(has_run.recv().is_err(), "the job was dropped, not run");
    }

    #[tokio::test]
    async fn a_full_queue_makes_callers_wait() {
        let pool = pool(1, 1);
        let (release, running) = occupy(&pool);
        let mut second = pin!(pool.run(|| 2));
        let mut third = pin!(pool.run(|| 3));
        assert!(poll_once(second.as_mut()).is_pending());
        assert!(poll_once(third.as_mut()).is_pending());
        assert_eq!(pool.queued(), 1, "the third is not queued yet");
        release.send(()).unwrap();
        running.await.unwrap();
        assert_eq!(tokio::join!(second, third), (Ok(2), Ok(3)));
    }

    #[tokio::test]
    async fn shutdown_closes_what_has_not_started() {
        let pool = pool(1, 1);
        let (release, running) = occupy(&pool);
        let mut queued = pin!(pool.run(|| 2));
        let mut waiting = pin!(pool.run(|| 3));
        assert!(poll_once(queued.as_mut()).is_pending());
        assert!(poll_once(waiting.as_mut()).is_pending());
        pool.shutdown();
        assert_eq!(pool.run(|| 4).await, Err(PoolError::Closed));
        release.send(()).unwrap();
        assert_eq!(running.await, Ok(()), "what runs finishes");
        assert_eq!(queued.await, Err(PoolError::Closed));
        assert_eq!(waiting.await, Err(PoolError::Closed));
    }

    #[test]
    fn dropping_the_pool_joins_its_threads() {
        let pool = pool(3, 1);
        let state = Arc::downgrade(&pool.state);
        drop(pool);
        assert!(state.upgrade().is_none(), "a thread still holds the state");
    }
}
