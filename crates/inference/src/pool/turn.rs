//! Turns: a job that takes long gives up its turn at a checkpoint while another tenant waits.
//!
//! A pool has as many turns as cores work for it, and a thread needs a turn to run a job. A job that has used up its slice
//! while another tenant waits queues for its next turn and keeps its thread, which sleeps meanwhile. Another thread takes
//! the turn. So code that computes for seconds needs no `async`, and the pool has more threads than turns only while jobs
//! are paused.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use facescan_imaging::checkpoint;

use super::{Job, Shared, Stage, Tenant, queue::Entry};

/// The most jobs that are paused at a time. Each has a thread. Further jobs keep their turns.
const MAX_PAUSED: usize = 64;
/// The slices that a job keeps its turn while only jobs of its own tenant wait. Every pause costs memory, because more
/// jobs are half done, and the caches of a core.
const SLICES_BEFORE_OWN: u32 = 10;

thread_local! {
    /// The pool that this thread belongs to.
    static POOL: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
    /// The turn that this thread has.
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
    /// The job that this thread runs.
    static CONTEXT: RefCell<JobContext> = RefCell::default();
    /// The job that this thread runs after the current one, before it looks at the queue.
    static NEXT: Cell<Option<NextJob>> = const { Cell::new(None) };
}

/// A turn of a thread.
struct Turn {
    /// The tenant that it counts for.
    tenant: Tenant,
    /// When it was taken.
    began: Instant,
    /// When the slice is over.
    until: Instant,
}

impl Turn {
    fn new(tenant: Tenant, slice: Duration) -> Self {
        let began = Instant::now();
        Self {
            tenant,
            began,
            until: began + slice,
        }
    }
}

/// A job that a thread runs next.
pub(super) struct NextJob {
    pub(super) tenant: Tenant,
    pub(super) stage: Stage,
    pub(super) job: Job,
}

/// Whom a job runs for, and whether somebody still waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct JobContext {
    pub(super) tenant: Tenant,
    /// Set when the caller leaves.
    pub(super) abandoned: Arc<AtomicBool>,
}

impl JobContext {
    /// Creates the context of a job, and the guard that its caller holds.
    pub(super) fn new(tenant: Tenant) -> (Self, AbandonOnDrop) {
        let context = Self {
            tenant,
            ..Self::default()
        };
        let guard = AbandonOnDrop(Arc::clone(&context.abandoned));
        (context, guard)
    }

    /// Runs `work` on this thread in this context.
    pub(super) fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<JobContext>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CONTEXT.set(self.0.take().unwrap_or_default());
            }
        }
        let _restore = Restore(Some(CONTEXT.replace(self.clone())));
        work()
    }
}

/// Tells the job at its next checkpoint that nobody waits for it any more.
pub(super) struct AbandonOnDrop(Arc<AtomicBool>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A job that waits for its next turn.
#[derive(Default)]
pub(super) struct PausedJob {
    has_turn: Mutex<bool>,
    wake: Condvar,
}

impl PausedJob {
    fn wait(&self) {
        let has_turn = self.has_turn.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_while(has_turn, |has_turn| !*has_turn);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn resume(&self) {
        *self.has_turn.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_one();
    }
}

/// Returns the tenant of the job that this thread runs.
pub(super) fn current_tenant() -> Tenant {
    CONTEXT.with_borrow(|context| context.tenant.clone())
}

/// Lets this thread run `job` next. Returns the job if the thread does not belong to the pool or has a next job.
pub(super) fn run_next(pool: &Shared, job: NextJob) -> Result<(), NextJob> {
    let is_here = |here: &Option<Arc<Shared>>| {
        here.as_ref()
            .is_some_and(|here| std::ptr::eq(Arc::as_ptr(here), pool))
    };
    if !POOL.with_borrow(is_here) {
        return Err(job);
    }
    match NEXT.take() {
        None => {
            NEXT.set(Some(job));
            Ok(())
        }
        taken => {
            NEXT.set(taken);
            Err(job)
        }
    }
}

impl Shared {
    /// Runs jobs on this thread until the pool is closed and empty.
    pub(super) fn work(self: &Arc<Self>) {
        POOL.set(Some(Arc::clone(self)));
        checkpoint::install(at_checkpoint);
        let mut queue = self.queue();
        loop {
            match queue.take() {
                Some((_, Entry::Resume(paused))) => {
                    // The turn is that of the paused job now.
                    queue.paused -= 1;
                    paused.resume();
                }
                Some((tenant, Entry::Start(job))) => {
                    drop(queue);
                    self.run_turn(tenant, job);
                    queue = self.queue();
                    if let Some(turn) = TURN.take() {
                        queue.give_back(&turn.tenant);
                    }
                }
                None if queue.closed && queue.is_empty() => break,
                None => queue = self.sleep(queue),
            }
        }
        // Threads that wait for the last job of a closed pool.
        self.wake_all(&mut queue);
        drop(queue);
        POOL.set(None);
    }

    /// Runs a job, and the jobs that follow it on this thread.
    fn run_turn(&self, tenant: Tenant, job: Job) {
        TURN.set(Some(Turn::new(tenant, self.options.slice)));
        job();
        while let Some(next) = NEXT.take() {
            if Self::is_slice_over() && self.queue().others_wait(&next.tenant) {
                self.push(&next.tenant, next.stage, next.job);
            } else {
                (next.job)();
            }
        }
    }

    fn is_slice_over() -> bool {
        TURN.with_borrow(|turn| {
            turn.as_ref()
                .is_some_and(|turn| turn.until <= Instant::now())
        })
    }

    /// Gives up the turn of this thread and waits for the next one if a job of another tenant waits, or, after several
    /// slices, any job. Begins another slice otherwise.
    fn pause(self: &Arc<Self>) {
        let mut queue = self.queue();
        let Some(turn) = TURN.take() else { return };
        let is_long = turn.began.elapsed() >= self.options.slice * SLICES_BEFORE_OWN;
        let somebody_waits = queue.others_wait(&turn.tenant) || (is_long && !queue.is_empty());
        if !somebody_waits || queue.closed || !self.provide_thread(&mut queue) {
            let until = Instant::now() + self.options.slice;
            TURN.set(Some(Turn { until, ..turn }));
            return;
        }
        let paused = Arc::new(PausedJob::default());
        let tenant = current_tenant();
        queue.paused += 1;
        queue.give_back(&turn.tenant);
        if let Some(next) = NEXT.take() {
            queue.push(&next.tenant, next.stage, Entry::Start(next.job));
        }
        // As if it began now, so that the jobs go first that wait already.
        let entry = Entry::Resume(Arc::clone(&paused));
        queue.push(&tenant, Stage::Begin, entry);
        self.wake_one(&mut queue);
        drop(queue);
        paused.wait();
        TURN.set(Some(Turn::new(tenant, self.options.slice)));
    }

    /// Starts a thread if there would be fewer than turns after this thread has paused. Returns whether this thread can
    /// pause.
    fn provide_thread(self: &Arc<Self>, queue: &mut super::Queue) -> bool {
        if queue.paused >= MAX_PAUSED {
            return false;
        }
        queue.threads - queue.paused > self.options.turns.get() || self.start_thread(queue).is_ok()
    }
}

/// Ends the job of this thread if nobody waits for it, or pauses it if its slice is used up.
fn at_checkpoint() {
    let stop_if_abandoned = || {
        if CONTEXT.with_borrow(|context| context.abandoned.load(Ordering::Relaxed)) {
            checkpoint::stop();
        }
    };
    stop_if_abandoned();
    let pool = POOL.with_borrow(Clone::clone);
    if let Some(pool) = pool
        && Shared::is_slice_over()
    {
        pool.pause();
        stop_if_abandoned();
    }
}

#[cfg(test)]
mod tests;
