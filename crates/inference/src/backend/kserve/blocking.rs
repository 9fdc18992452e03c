//! Waiting on a thread of one's own for what the async runtime does.

use std::{sync::mpsc, time::Duration};

use tokio::runtime::Handle;

/// What the runtime may be late by before it counts as ended.
const GRACE: Duration = Duration::from_secs(5);

/// What is said where a task was not run.
pub(super) const NOT_RUN: &str =
    "the async runtime did not run the request: it has ended, or this is its only thread";

/// Lets the runtime do something that takes at most `patience`, and blocks this thread until it is done. `None` when the
/// runtime does not do it.
///
/// `Handle::block_on` would panic on a thread of the runtime, and wait for ever where nothing else drives it.
pub(super) fn wait<T: Send + 'static>(
    runtime: &Handle,
    patience: Duration,
    task: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (reply, answer) = mpsc::sync_channel(1);
    let task = runtime.spawn(async move {
        // Nobody waits any more when this fails.
        reply.send(task.await).ok();
    });
    let outcome = answer.recv_timeout(patience + GRACE).ok();
    if outcome.is_none() {
        task.abort();
    }
    outcome
}
