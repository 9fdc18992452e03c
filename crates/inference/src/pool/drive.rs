//! Futures that the pool's threads poll, for work that alternates between computing and waiting.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
};

use async_task::Runnable;
use futures::FutureExt;
use tracing::Instrument;

use super::{CpuPool, Job, PoolError, Stage, Tenant, turn::JobContext};

impl CpuPool {
    /// Runs a future of a tenant on the pool's threads, in the current span. Its first poll waits in the queue of `stage`.
    /// When a thread of the pool wakes the future, that thread polls it next, which wakes no other thread and finds the
    /// data in its caches. When another thread wakes it, the poll is queued as [`Stage::Finish`].
    ///
    /// Dropping the returned future drops `future` on a thread of the pool, at its next wait or checkpoint.
    ///
    /// # Errors
    /// The future resolves to a [`PoolError`] if `future` panics or the pool is shut down before it completes.
    pub fn drive<F>(
        &self,
        tenant: Tenant,
        stage: Stage,
        future: F,
    ) -> impl Future<Output = Result<F::Output, PoolError>> + Send + use<F>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (context, abandon) = JobContext::new(tenant);
        let tenant = context.tenant.clone();
        let caught = async move {
            let mut future = pin!(AssertUnwindSafe(future).catch_unwind());
            poll_fn(|task| context.scope(|| future.as_mut().poll(task))).await
        }
        .in_current_span();
        let (shared, woken_for) = (Arc::clone(&self.shared), tenant.clone());
        let schedule = move |runnable: Runnable| {
            shared.push_next(&woken_for, Stage::Finish, job(runnable));
        };
        let (runnable, task) = async_task::spawn(caught, schedule);
        self.shared.push(&tenant, stage, job(runnable));
        // Shutting down the pool drops the queue, which ends the task without a result.
        task.fallible().map(move |ended| {
            drop(abandon);
            match ended {
                Some(result) => result.map_err(|_| PoolError::Panicked),
                None => Err(PoolError::Closed),
            }
        })
    }
}

fn job(runnable: Runnable) -> Job {
    Box::new(move || {
        // Dropping a cancelled future can panic, too.
        let _ = catch_unwind(|| runnable.run());
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::oneshot;

    use super::super::tests::{occupy, pool};
    use super::*;

    #[tokio::test]
    async fn a_future_continues_on_the_thread_that_woke_it() {
        let pool = Arc::new(pool(2));
        let (ends, wait) = oneshot::channel();
        let (waits, is_waiting) = oneshot::channel();
        let driven = pool.drive(None, Stage::Begin, async move {
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
    async fn a_future_continues_when_a_thread_outside_the_pool_wakes_it() {
        let pool = pool(1);
        let (ends, wait) = oneshot::channel::<u8>();
        let driven = tokio::spawn(pool.drive(None, Stage::Begin, wait));
        ends.send(7).unwrap();
        assert_eq!(driven.await.unwrap(), Ok(Ok(7)));
    }

    #[tokio::test]
    async fn an_abandoned_future_is_skipped_or_dropped_at_its_next_wait() {
        let pool = pool(1);
        let (release, running) = occupy(&pool);
        let (never, wait) = oneshot::channel::<()>();
        drop(pool.drive(None, Stage::Begin, wait));
        drop(release);
        running.await.unwrap();
        pool.run(Stage::Begin, || ()).await.unwrap();
        assert!(never.is_closed());

        let (mut never, wait) = oneshot::channel::<()>();
        let (waits, is_waiting) = oneshot::channel();
        let mut driven = Box::pin(pool.drive(None, Stage::Begin, async move {
            waits.send(()).unwrap();
            wait.await
        }));
        assert!(driven.as_mut().now_or_never().is_none());
        is_waiting.await.unwrap();
        drop(driven);
        never.closed().await;
    }

    #[tokio::test]
    async fn a_panic_and_a_shutdown_give_different_errors() {
        let pool = pool(1);
        let panics = pool.drive(None, Stage::Begin, async { panic!("on purpose") });
        assert_eq!(panics.await, Err::<(), _>(PoolError::Panicked));
        let (release, running) = occupy(&pool);
        let queued = pool.drive(None, Stage::Begin, async {});
        pool.shutdown();
        drop(release);
        running.await.unwrap();
        assert_eq!(queued.await, Err(PoolError::Closed));
        let late = pool.drive(None, Stage::Begin, async {});
        assert_eq!(late.await, Err(PoolError::Closed));
    }
}
