//! Threads for decoding, inference on the CPU and other work that would block the async runtime.

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
use tracing::Span;

mod drive;

/// The reason why a job returned no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The job panicked. The pool keeps running.
    #[error("a job of the cpu pool panicked")]
    Panicked,
    /// The pool was shut down before the job started.
    #[error("the cpu pool is shut down")]
    Closed,
}

/// The progress of a job's work. Later stages run first, because finishing work frees memory and answers a caller.
/// Starting more work does neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Work between a model's outputs and the next model or the response.
    Finish,
    /// Reading and decoding input that somebody waits for, beside work that nobody waits for.
    BeginFirst,
    /// Running a model.
    Infer,
    /// Reading and decoding input.
    Begin,
}

const STAGES: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The pool that this thread belongs to, as the address of the pool's shared state. 0 if it belongs to no pool.
    static POOL: Cell<usize> = const { Cell::new(0) };
    /// The job that this thread runs after the current one, before it looks at the queue.
    static NEXT: RefCell<Option<Job>> = const { RefCell::new(None) };
}

/// A fixed number of threads. The queue is unbounded: admission bounds how many jobs can wait.
///
/// A job whose caller leaves before it starts is skipped. A job runs in the tracing span of its caller. Dropping the
/// pool closes it and waits for the running jobs.
pub struct CpuPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// How busy a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolLoad {
    /// Jobs that wait for a thread.
    pub waiting: usize,
    /// Threads that run a job.
    pub busy: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    skipped: AtomicU64,
}

#[derive(Default)]
struct Queue {
    /// One first-in, first-out queue for each stage.
    jobs: [VecDeque<Job>; STAGES],
    /// Threads that run a job.
    busy: usize,
    closed: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.jobs.iter().all(VecDeque::is_empty)
    }

    fn load(&self) -> PoolLoad {
        PoolLoad {
            waiting: self.jobs.iter().map(VecDeque::len).sum(),
            busy: self.busy,
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No job runs while the lock is held, and every change is a single step.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job. Returns false if the pool is closed.
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

    /// Runs a job next on this thread if the thread belongs to the pool and has no next job. Queues it otherwise.
    fn push_next(&self, stage: Stage, job: Job) {
        let is_pool_thread = POOL.get() == self.address();
        if is_pool_thread && NEXT.with_borrow(Option::is_none) {
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
    /// Returns an error if the operating system cannot start a thread.
    pub fn new(threads: NonZeroUsize) -> std::io::Result<Self> {
        let mut pool = Self {
            shared: Arc::default(),
            threads: Vec::with_capacity(threads.get()),
        };
        for index in 0..threads.get() {
            let shared = Arc::clone(&pool.shared);
            let name = format!("cpu-{index}");
            // On failure, dropping the pool joins the threads that started.
            pool.threads.push(
                thread::Builder::new()
                    .name(name)
                    .spawn(move || shared.work())?,
            );
        }
        Ok(pool)
    }

    /// Queues `job` at once. The future resolves to its result. Dropping the future before a thread takes the job skips
    /// the job.
    ///
    /// # Errors
    /// The future resolves to a [`PoolError`] if the job panics or the pool is shut down before the job starts.
    pub fn run<T, F>(
        &self,
        stage: Stage,
        job: F,
    ) -> impl Future<Output = Result<T, PoolError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        let (shared, span) = (Arc::clone(&self.shared), Span::current());
        self.shared.push(
            stage,
            Box::new(move || {
                if reply.is_closed() {
                    shared.skipped.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                let job = AssertUnwindSafe(|| span.in_scope(job));
                let outcome = catch_unwind(job).map_err(|_| PoolError::Panicked);
                // The caller may have left meanwhile and needs no result then.
                let _ = reply.send(outcome);
            }),
        );
        // The reply sender is dropped unused only if the pool is shut down.
        async move { result.await.unwrap_or(Err(PoolError::Closed)) }
    }

    /// Queues `job`, which nobody waits for. It runs in no span. A panic ends only the job.
    pub fn spawn(&self, stage: Stage, job: impl FnOnce() + Send + 'static) {
        self.shared.push(stage, caught(job));
    }

    /// Queues `job` like [`spawn`](Self::spawn). When a job of this pool calls it, the same thread runs `job` next.
    /// This wakes no other thread, and the data is still in the core's caches. A second call from the same job queues
    /// its `job`.
    pub fn spawn_next(&self, stage: Stage, job: impl FnOnce() + Send + 'static) {
        self.shared.push_next(stage, caught(job));
    }

    /// Returns whether no job waits and at most one thread is busy. If a job calls this, that thread is its own.
    pub fn is_quiet(&self) -> bool {
        let queue = self.shared.queue();
        queue.busy <= 1 && queue.is_empty()
    }

    /// Returns the number of jobs that were skipped because their callers had left.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }

    /// Returns the number of jobs that wait for a thread.
    pub fn queued(&self) -> usize {
        self.shared.queue().load().waiting
    }

    /// Returns a function that reports how busy the pool is. It does not keep the pool alive.
    pub fn load(&self) -> impl Fn() -> PoolLoad + Send + Sync + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || {
            shared
                .upgrade()
                .map_or_else(PoolLoad::default, |shared| shared.queue().load())
        }
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Refuses new jobs and drops the jobs that have not started. Both resolve to [`PoolError::Closed`]. Running jobs
    /// finish and return their results.
    pub fn shutdown(&self) {
        let mut queue = self.shared.queue();
        queue.closed = true;
        let dropped = std::mem::take(&mut queue.jobs);
        drop(queue);
        self.shared.wake.notify_all();
        // The jobs are dropped without the lock, because a value that a job owns may queue another job when it is
        // dropped.
        drop(dropped);
    }
}

/// Returns a job whose panic ends only the job.
fn caught(job: impl FnOnce() + Send + 'static) -> Job {
    Box::new(move || {
        let _ = catch_unwind(AssertUnwindSafe(job));
    })
}

impl Drop for CpuPool {
    fn drop(&mut self) {
        self.shutdown();
        for thread in self.threads.drain(..) {
            // The last owner may be a job, whose thread cannot wait for its own end.
            if thread.thread().id() != thread::current().id() {
                // A thread catches the panics of its jobs, so it has nothing to report.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests;
