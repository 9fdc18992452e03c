//! Ends a run that nobody waits for anymore.
//!
//! A row of 4096 × 4096 pixels runs for seconds on one core, and a batch that is deleted or a client that leaves should not
//! keep the core for so long.

use std::time::Duration;

use futures::future::{Either, join_all, select};
use tokio::{runtime::Handle, sync::oneshot, task::JoinHandle};

use super::ReplySender;
use crate::backend::Stop;

type Callers = Vec<(ReplySender, Duration)>;

/// Watches the callers of a run until the run ends.
pub(super) struct Watch {
    task: JoinHandle<Callers>,
    ended: oneshot::Sender<()>,
}

impl Watch {
    /// Watches `callers`, and calls `stop` if all of them leave.
    pub(super) fn start(runtime: &Handle, mut callers: Callers, stop: Stop) -> Self {
        let (ended, end) = oneshot::channel();
        let task = runtime.spawn(async move {
            let closed = callers.iter_mut().map(|(reply, _)| reply.sender.closed());
            if let Either::Left(_) = select(join_all(closed), end).await {
                stop();
            }
            callers
        });
        Self { task, ended }
    }

    /// Returns the callers after the run, or none if the runtime has stopped. Must be called outside the async runtime.
    pub(super) fn finish(self, runtime: &Handle) -> Callers {
        drop(self.ended);
        runtime.block_on(self.task).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Condvar, Mutex},
        time::Duration,
    };

    use crate::{
        backend::{BackendError, Batch, Session, Stop},
        engine::{Engine, testing::parts},
        tensor::{Signature, Tensor},
    };

    /// What happened to a run.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    enum State {
        #[default]
        Waits,
        Runs,
        Stopped,
    }

    /// A session whose runs last until they are stopped.
    struct Endless {
        signature: Signature,
        state: Arc<(Mutex<State>, Condvar)>,
    }

    /// Waits until a run is in this state.
    fn wait_for(shared: &(Mutex<State>, Condvar), wanted: State) {
        let (state, changed) = shared;
        let waited =
            changed.wait_timeout_while(state.lock().unwrap(), Duration::from_secs(30), |now| {
                *now != wanted
            });
        assert!(!waited.unwrap().1.timed_out(), "not {wanted:?} in time");
    }

    fn set(shared: &(Mutex<State>, Condvar), to: State) {
        *shared.0.lock().unwrap() = to;
        shared.1.notify_all();
    }

    impl Session for Endless {
        fn signature(&self) -> &Signature {
            &self.signature
        }

        fn run(&mut self, _: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
            set(&self.state, State::Runs);
            wait_for(&self.state, State::Stopped);
            Err(BackendError::run("stopped"))
        }

        fn stop(&mut self) -> Option<Stop> {
            let state = Arc::clone(&self.state);
            Some(Arc::new(move || set(&state, State::Stopped)))
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_run_of_large_rows_ends_when_its_caller_leaves() {
        let state = Arc::<(Mutex<State>, Condvar)>::default();
        let session: Box<dyn Session> = Box::new(Endless {
            signature: Signature::default(),
            state: Arc::clone(&state),
        });
        let engine = Engine::start(parts(vec![session]));
        let pending = engine.claim(&[64]).commit();
        let shared = Arc::clone(&state);
        tokio::task::spawn_blocking(move || wait_for(&shared, State::Runs))
            .await
            .unwrap();
        drop(pending);
        tokio::task::spawn_blocking(move || wait_for(&state, State::Stopped))
            .await
            .unwrap();
    }
}
