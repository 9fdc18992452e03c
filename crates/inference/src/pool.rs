//! Threads for decoding, inference on the CPU and other work that would hold up the async runtime.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

mod drive;

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

/// How far along the work is that a job belongs to. Later stages go first: finishing what has begun frees its memory
/// and answers somebody, while beginning more does neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What lies between a model's answer and the next model or the response.
    Finish,
    /// Running a model.
    Infer,
    /// Reading and decoding what has come in.
    Begin,
}

const STAGES: usize = 3;

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The pool that this thread belongs to, by the address of what its threads share; 0 for none.
    static POOL: Cell<usize> = const { Cell::new(0) };
    /// What this thread does when its job ends, before it looks at the queue.
    static NEXT: RefCell<Option<Job>> = const { RefCell::new(None) };
}

/// A fixed number of threads. How much may wait for them is bounded by who is admitted, not here.
///
/// A job whose caller has gone before it starts is skipped. Dropping the pool closes it and waits for the jobs that run.
pub struct CpuPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    skipped: AtomicU64,
}

#[derive(Default)]
struct Queue {
    /// One line for each stage, the first served first.
    jobs: [VecDeque<Job>; STAGES],
    /// Threads that work on a job.
    busy: usize,
    closed: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.jobs.iter().all(VecDeque::is_empty)
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No job runs while it is held, and every change to it is one step.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job; false when the pool is closed.
    fn push(&self, stage: Stage, job: Job) -> bool {
        let mut queue = self.queue();
        if queue.closed {
            return false;
        }
        queue.jobs[stage as usize].push_back(job);
        drop(queue);
        self.wake.notify_one();
        true
    }

    /// Lets this thread do a job next when it is one of ours and has no other in mind; queues it otherwise.
    fn push_next(&self, stage: Stage, job: Job) {
        let is_ours = POOL.get() == self.address();
        if is_ours && NEXT.with_borrow(Option::is_none) {
            NEXT.set(Some(job));
        } else {
            self.push(stage, job);
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn work(&self) {
        POOL.set(self.address());
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.iter_mut().find_map(VecDeque::pop_front) {
                queue.busy += 1;
                drop(queue);
                job();
                while let Some(next) = NEXT.take() {
                    next();
                }
                queue = self.queue();
                queue.busy -= 1;
            } else if queue.closed {
                return;
            } else {
                queue = self
                    .wake
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl CpuPool {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(threads: NonZeroUsize) -> std::io::Result<Self> {
        let mut pool = Self {
            shared: Arc::default(),
            threads: Vec::with_capacity(threads.get()),
        };
        for index in 0..threads.get() {
            let shared = Arc::clone(&pool.shared);
            let name = format!("cpu-{index}");
            // On failure the threads that did start are joined as the pool drops.
            pool.threads.push(
                thread::Builder::new()
                    .name(name)
                    .spawn(move || shared.work())?,
            );
        }
        Ok(pool)
    }

    /// Queues `job` at once; the future resolves to its result. It is skipped if the future is dropped before a thread
    /// takes it.
    ///
    /// # Errors
    /// [`PoolError`]; the future resolves to it.
    pub fn run<T, F>(
        &self,
        stage: Stage,
        job: F,
    ) -> impl Future<Output = Result<T, PoolError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        let skips = Arc::clone(&self.shared);
        self.shared.push(
            stage,
            Box::new(move || {
                if answer.is_closed() {
                    skips.skipped.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                let outcome = catch_unwind(AssertUnwindSafe(job)).map_err(|_| PoolError::Panicked);
                // The caller may have gone meanwhile; nobody misses the result then.
                let _ = answer.send(outcome);
            }),
        );
        // A job that is dropped unrun drops its end of the channel: the pool closed.
        async move { result.await.unwrap_or(Err(PoolError::Closed)) }
    }

    /// Queues `job`, which nobody waits for. A panic of it costs nothing but itself.
    pub fn spawn(&self, stage: Stage, job: impl FnOnce() + Send + 'static) {
        self.shared.push(stage, caught(job));
    }

    /// The same for a job that is about to end, on a thread of this pool: what it leaves behind is done by this thread
    /// next, which wakes nobody and finds its data near. Elsewhere, and for the second such job, it is
    /// [`spawn`](Self::spawn).
    pub fn spawn_next(&self, stage: Stage, job: impl FnOnce() + Send + 'static) {
        self.shared.push_next(stage, caught(job));
    }

    /// Whether no job waits and at most one thread works, which is the caller's when a job asks.
    pub fn is_quiet(&self) -> bool {
        let queue = self.shared.queue();
        queue.busy <= 1 && queue.is_empty()
    }

    /// How many jobs were skipped because nobody waited for them any more.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }

    /// How many jobs wait for a thread.
    pub fn queued(&self) -> usize {
        self.shared.queue().jobs.iter().map(VecDeque::len).sum()
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Refuses new jobs and drops those that have not started: all of them give [`PoolError::Closed`]. Jobs that
    /// run finish and give their results.
    pub fn shutdown(&self) {
        let mut queue = self.shared.queue();
        queue.closed = true;
        let dropped = std::mem::take(&mut queue.jobs);
        drop(queue);
        self.shared.wake.notify_all();
        // Outside the lock: what a job owns may queue another one as it goes.
        drop(dropped);
    }
}

/// A job whose panic costs nothing but itself.
fn caught(job: impl FnOnce() + Send + 'static) -> Job {
    Box::new(move || {
        let _ = catch_unwind(AssertUnwindSafe(job));
    })
}

impl Drop for CpuPool {
    fn drop(&mut self) {
        self.shutdown();
        for thread in self.threads.drain(..) {
            // The last owner may be a job. Its thread ends by itself, and cannot wait for its own end.
            if thread.thread().id() != thread::current().id() {
                // A thread catches what its jobs panic with, so it has nothing to report.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::mpsc,
        task::{Context, Poll, Waker},
    };

    use super::*;

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
        assert_eq!((pool.threads(), pool.skipped()), (2, 0));
    }

    #[tokio::test]
    async fn a_panic_costs_its_own_job_only() {
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
        assert_eq!(pool.queued(), 1);
        drop(release);
        running.await.unwrap();
        assert_eq!(pool.run(Stage::Begin, || 2).await, Ok(2));
        assert_eq!(pool.skipped(), 1);
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
    async fn what_a_job_leaves_behind_is_done_next_by_its_own_thread() {
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
        // Elsewhere it is queued as any other.
        pool.spawn_next(Stage::Infer, move || log.send(false).unwrap());
        assert_eq!(order.recv(), Ok(false));
    }

    #[tokio::test]
    async fn a_job_can_tell_that_it_is_alone() {
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
    async fn shutdown_closes_what_has_not_started() {
        let pool = pool(1);
        let (release, running) = occupy(&pool);
        let queued = pool.run(Stage::Begin, || 2);
        pool.shutdown();
        assert_eq!(pool.run(Stage::Begin, || 4).await, Err(PoolError::Closed));
        release.send(()).unwrap();
        assert_eq!(running.await, Ok(()), "what runs finishes");
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
}
