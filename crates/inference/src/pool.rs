//! Threads for decoding, inference on the CPU and other work that would block the async runtime.

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::oneshot;
use tracing::Span;

use queue::{Entry, Queue};
use turn::{JobContext, NextJob};

mod drive;
mod queue;
mod turn;

/// The niceness of the threads of a background pool. Beside a thread of the usual niceness, such a thread gets a quarter
/// of a core.
#[cfg(target_os = "linux")]
const BACKGROUND_NICENESS: i32 = 5;

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

/// The tenant that a job runs for. `None` is the server itself, which counts like a tenant.
pub type Tenant = Option<Arc<str>>;

/// Threads for CPU work. The queue is unbounded: admission bounds how many jobs can wait.
///
/// A job needs a turn to run, and there are as many turns as [threads](Self::threads). Turns go round the tenants that
/// have waiting jobs, and within a tenant by [`Stage`]. A job that runs for longer than a slice gives up its turn at its
/// next [checkpoint](facescan_imaging::checkpoint) while jobs of other tenants wait.
///
/// A job whose caller leaves before it starts is skipped. A job whose caller leaves later ends at its next checkpoint. A
/// job runs in the tracing span of its caller. Dropping the pool closes it and waits for the running jobs.
pub struct CpuPool {
    shared: Arc<Shared>,
}

/// How a pool works.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// The number of jobs that run at a time.
    pub turns: NonZeroUsize,
    /// The number of jobs of one tenant that run at a time, at most.
    pub tenant_turns: NonZeroUsize,
    /// How long a job may run while a job of another tenant waits. It then gives up its turn at the next checkpoint. To a
    /// job of its own tenant it gives it up after ten times as long.
    pub slice: Duration,
    /// Whether the operating system prefers other threads, where it supports that.
    pub is_background: bool,
    /// The name of the threads, to which a number is added.
    pub name: &'static str,
}

impl PoolOptions {
    /// A slice that is short beside a request, and long beside the time to change threads.
    const SLICE: Duration = Duration::from_millis(10);

    /// Returns the options of a pool whose turns each tenant can have all of.
    pub fn new(turns: NonZeroUsize) -> Self {
        Self {
            turns,
            tenant_turns: turns,
            slice: Self::SLICE,
            is_background: false,
            name: "cpu",
        }
    }
}

/// How busy a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolLoad {
    /// Jobs that wait for a turn.
    pub waiting: usize,
    /// Turns that are taken.
    pub busy: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    options: PoolOptions,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No job runs while the lock is held, and every change is a single step.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job. Returns false if the pool is closed.
    fn push(&self, tenant: &Tenant, stage: Stage, job: Job) -> bool {
        let mut queue = self.queue();
        if queue.closed {
            return false;
        }
        queue.push(tenant, stage, Entry::Start(job));
        if queue.has_free_turn() {
            self.wake_one(&mut queue);
        }
        true
    }

    /// Runs a job next on this thread if the thread belongs to the pool and has no next job. Queues it otherwise.
    fn push_next(&self, tenant: &Tenant, stage: Stage, job: Job) {
        let tenant = tenant.clone();
        let next = NextJob { tenant, stage, job };
        if let Err(NextJob { tenant, stage, job }) = turn::run_next(self, next) {
            self.push(&tenant, stage, job);
        }
    }

    /// Starts a thread.
    fn start_thread(self: &Arc<Self>, queue: &mut Queue) -> std::io::Result<()> {
        let name = format!("{}-{}", self.options.name, queue.threads);
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name(name).spawn(move || {
            if shared.options.is_background {
                prefer_other_threads();
            }
            shared.work();
        })?;
        queue.threads += 1;
        self.threads().push(thread);
        Ok(())
    }

    fn wake_one(&self, queue: &mut Queue) {
        if queue.idle > 0 {
            queue.idle -= 1;
            queue.woken += 1;
            self.wake.notify_one();
        }
    }

    fn wake_all(&self, queue: &mut Queue) {
        queue.woken += std::mem::take(&mut queue.idle);
        self.wake.notify_all();
    }

    /// Waits until another thread wakes this one.
    fn sleep<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.idle += 1;
        let woken = self.wake.wait_while(queue, |queue| queue.woken == 0);
        let mut queue = woken.unwrap_or_else(PoisonError::into_inner);
        queue.woken -= 1;
        queue
    }
}

/// Lowers the priority of this thread.
fn prefer_other_threads() {
    // In Linux, the priority of process 0 is that of the calling thread.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, BACKGROUND_NICENESS) {
        tracing::debug!(%error, "the priority of a thread cannot be lowered");
    }
}

impl CpuPool {
    /// Starts a pool with `threads` turns, and a thread for each.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start a thread.
    pub fn new(threads: NonZeroUsize) -> std::io::Result<Self> {
        Self::with_options(PoolOptions::new(threads))
    }

    /// Starts a pool.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start a thread.
    pub fn with_options(options: PoolOptions) -> std::io::Result<Self> {
        let queue = Queue::new(options.turns.get(), options.tenant_turns.get());
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            options,
            threads: Mutex::default(),
        });
        // On failure, dropping the pool joins the threads that started.
        let pool = Self { shared };
        for _ in 0..options.turns.get() {
            pool.shared.start_thread(&mut pool.shared.queue())?;
        }
        Ok(pool)
    }

    /// Queues `job` at once, for the tenant of the job that calls this. The future resolves to its result. Dropping the
    /// future before a thread takes the job skips the job. Dropping it later ends the job at its next checkpoint.
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
        self.run_for(turn::current_tenant(), stage, job)
    }

    /// Queues `job` like [`run`](Self::run), for a tenant.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn run_for<T, F>(
        &self,
        tenant: Tenant,
        stage: Stage,
        job: F,
    ) -> impl Future<Output = Result<T, PoolError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        let span = Span::current();
        let (context, abandon) = JobContext::new(tenant);
        let tenant = context.tenant.clone();
        let job = Box::new(move || {
            if reply.is_closed() {
                return;
            }
            let job = AssertUnwindSafe(|| context.scope(|| span.in_scope(job)));
            let outcome = catch_unwind(job).map_err(|_| PoolError::Panicked);
            // The caller may have left meanwhile and needs no result then.
            let _ = reply.send(outcome);
        });
        self.shared.push(&tenant, stage, job);
        async move {
            let _abandon = abandon;
            // The reply sender is dropped unused only if the pool is shut down.
            result.await.unwrap_or(Err(PoolError::Closed))
        }
    }

    /// Waits for a turn of the server itself, at a stage, if the pool is busy. Work that is done together afterwards, and not in this
    /// pool, then waits for what the pool is about to finish.
    pub fn next_turn(&self, stage: Stage) -> impl Future<Output = ()> + Send + use<> {
        let turn = (!self.is_quiet()).then(|| self.run_for(None, stage, || ()));
        async {
            if let Some(turn) = turn {
                // A pool that is shut down delays nobody.
                turn.await.ok();
            }
        }
    }

    /// Queues `job`, which nobody waits for, for the tenant of the job that calls this. It runs in no span. A panic ends
    /// only the job.
    pub fn spawn(&self, stage: Stage, job: impl FnOnce() + Send + 'static) {
        let (tenant, job) = caught(turn::current_tenant(), job);
        self.shared.push(&tenant, stage, job);
    }

    /// Queues `job` like [`spawn`](Self::spawn). When a job of this pool calls it, the same thread runs `job` next.
    /// This wakes no other thread, and the data is still in the core's caches. A second call from the same job queues
    /// its `job`.
    pub(crate) fn spawn_next(&self, stage: Stage, job: impl FnOnce() + Send + 'static) {
        let (tenant, job) = caught(turn::current_tenant(), job);
        self.shared.push_next(&tenant, stage, job);
    }

    /// Returns whether no job waits and at most one turn is taken. If a job calls this, that turn is its own.
    pub(crate) fn is_quiet(&self) -> bool {
        let load = self.shared.queue().load();
        load.busy <= 1 && load.waiting == 0
    }

    /// Returns whether all jobs of late were for one tenant. A job that cannot give up its turn delays nobody else then.
    pub fn has_one_tenant(&self) -> bool {
        self.shared.queue().has_one_tenant()
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

    /// Returns the number of jobs that run at a time.
    pub fn threads(&self) -> usize {
        self.shared.options.turns.get()
    }

    /// Refuses new jobs and drops the jobs that have not started. Both resolve to [`PoolError::Closed`]. Running jobs
    /// finish and return their results.
    pub fn shutdown(&self) {
        let mut queue = self.shared.queue();
        let dropped = queue.close();
        self.shared.wake_all(&mut queue);
        drop(queue);
        // The jobs are dropped without the lock, because a value that a job owns may queue another job when it is
        // dropped.
        drop(dropped);
    }
}

/// Returns a job for a tenant whose panic ends only the job.
fn caught(tenant: Tenant, job: impl FnOnce() + Send + 'static) -> (Tenant, Job) {
    let context = JobContext {
        tenant: tenant.clone(),
        ..JobContext::default()
    };
    let job = move || {
        let _ = catch_unwind(AssertUnwindSafe(|| context.scope(job)));
    };
    (tenant, Box::new(job))
}

impl Drop for CpuPool {
    fn drop(&mut self) {
        self.shutdown();
        // No thread starts after the shutdown, because no job pauses then.
        let threads = std::mem::take(&mut *self.shared.threads());
        for thread in threads {
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
