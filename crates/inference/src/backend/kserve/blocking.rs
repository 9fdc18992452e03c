//! Blocks a thread until the async runtime has finished a future.

use std::{sync::mpsc, time::Duration};

use tokio::runtime::Handle;

/// How late the runtime may be before it counts as stopped.
const GRACE: Duration = Duration::from_secs(5);

/// The error when a task was not run.
pub(super) const NOT_RUN: &str =
    "the async runtime did not run the request: it has ended, or this is its only thread";

/// Runs a future that takes at most `time_budget` on the runtime, and blocks this thread until it is done. Returns
/// `None` if the runtime does not run it.
///
/// `Handle::block_on` would panic on a thread of the runtime, and would wait forever if nothing else drives the
/// runtime.
pub(super) fn wait<T: Send + 'static>(
    runtime: &Handle,
    time_budget: Duration,
    task: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (reply, response) = mpsc::sync_channel(1);
    let task = runtime.spawn(async move {
        // This fails only when nobody waits for the result any more.
        reply.send(task.await).ok();
    });
    let outcome = response.recv_timeout(time_budget + GRACE).ok();
    if outcome.is_none() {
        task.abort();
    }
    outcome
}
