//! Futures that the pool's threads poll, for work that goes on and waits in turn.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
};

use async_task::Runnable;
use futures::FutureExt;

use super::{CpuPool, PoolError, Shared, Stage};

/// Counts a future that was dropped before its first part.
struct Unbegun(Option<Arc<Shared>>);

impl Unbegun {
    fn begin(mut self) {
        self.0 = None;
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl CpuPool {
    /// Runs a future on the pool's threads. Its first part waits in the line of `stage`. What follows a wait is done
    /// next by the thread of the pool that ended the wait, which wakes nobody and finds the data near; when another
    /// thread ended it, it is queued as [`Stage::Finish`].
    ///
    /// Dropping what this returns drops the future at its next wait, on a thread of the pool.
    ///
    /// # Errors
    /// [`PoolError`]; the future resolves to it.
    pub fn drive<F>(
        &self,
        stage: Stage,
        future: F,
    ) -> impl Future<Output = Result<F::Output, PoolError>> + Send + use<F>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let unbegun = Unbegun(Some(Arc::clone(&self.shared)));
        let caught = async move {
            unbegun.begin();
            AssertUnwindSafe(future).catch_unwind().await
        };
        let shared = Arc::clone(&self.shared);
        let goes_on = move |runnable: Runnable| shared.push_next(Stage::Finish, job(runnable));
        let (runnable, task) = async_task::spawn(caught, goes_on);
        self.shared.push(stage, job(runnable));
        // A pool that closes drops what it has queued, which ends the task without an answer.
        task.fallible().map(|ended| match ended {
            Some(answer) => answer.map_err(|_| PoolError::Panicked),
            None => Err(PoolError::Closed),
        })
    }
}

fn job(runnable: Runnable) -> super::Job {
    super::caught(move || {
        runnable.run();
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::oneshot;

    use super::super::tests::{occupy, pool};
    use super::*;

    #[tokio::test]
    async fn a_future_goes_on_where_its_wait_ended() {
        let pool = Arc::new(pool(2));
        let (ends, wait) = oneshot::channel();
        let (waits, is_waiting) = oneshot::channel();
        let driven = pool.drive(Stage::Begin, async move {
            waits.send(()).unwrap();
            wait.await.unwrap();
            thread::current().id()
        });
        let driven = tokio::spawn(driven);
        is_waiting.await.unwrap();
        let ended_by = pool.run(Stage::Infer, move || {
            ends.send(()).unwrap();
            thread::current().id()
        });
        let ended_by = ended_by.await.unwrap();
        assert_eq!(driven.await.unwrap(), Ok(ended_by));
    }

    #[tokio::test]
    async fn a_future_goes_on_when_another_thread_ends_its_wait() {
        let pool = pool(1);
        let (ends, wait) = oneshot::channel::<u8>();
        let driven = tokio::spawn(pool.drive(Stage::Begin, wait));
        ends.send(7).unwrap();
        assert_eq!(driven.await.unwrap(), Ok(Ok(7)));
    }

    #[tokio::test]
    async fn one_that_nobody_waits_for_is_skipped_or_dropped_at_its_wait() {
        let pool = pool(1);
        let (release, running) = occupy(&pool);
        let (never, wait) = oneshot::channel::<()>();
        drop(pool.drive(Stage::Begin, wait));
        drop(release);
        running.await.unwrap();
        pool.run(Stage::Begin, || ()).await.unwrap();
        assert!(never.is_closed());
        assert_eq!(pool.skipped(), 1);

        let (mut never, wait) = oneshot::channel::<()>();
        let (waits, is_waiting) = oneshot::channel();
        let mut driven = Box::pin(pool.drive(Stage::Begin, async move {
            waits.send(()).unwrap();
            wait.await
        }));
        assert!(driven.as_mut().now_or_never().is_none());
        is_waiting.await.unwrap();
        drop(driven);
        never.closed().await;
        assert_eq!(pool.skipped(), 1, "it had begun");
    }

    #[tokio::test]
    async fn a_panic_and_a_shutdown_are_told_apart() {
        let pool = pool(1);
        let panics = pool.drive(Stage::Begin, async { panic!("on purpose") });
        assert_eq!(panics.await, Err::<(), _>(PoolError::Panicked));
        let (release, running) = occupy(&pool);
        let queued = pool.drive(Stage::Begin, async {});
        pool.shutdown();
        drop(release);
        running.await.unwrap();
        assert_eq!(queued.await, Err(PoolError::Closed));
        let late = pool.drive(Stage::Begin, async {});
        assert_eq!(late.await, Err(PoolError::Closed));
    }
}
