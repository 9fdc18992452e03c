//! The thread that owns the session of a device. Accelerators keep handles and memory for each thread that calls them,
//! so all calls come from one thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use crate::{
    backend::BackendError,
    health::{Failure, Fault},
};

/// Sends jobs to the thread that owns an `S`. When it is dropped, the thread ends after its current job.
pub(super) struct Worker<S> {
    jobs: mpsc::Sender<Job<S>>,
}

/// Receives what the thread owns, or the reason why it owns nothing.
type Job<S> = Box<dyn FnOnce(Result<&mut S, Failure>) + Send>;

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        let fault = match error {
            BackendError::OutOfMemory(_) => Fault::OutOfMemory,
            BackendError::Library(_)
            | BackendError::Unavailable(_)
            | BackendError::Load { .. }
            | BackendError::Run(_) => Fault::Failed,
        };
        Self {
            fault,
            detail: error.to_string(),
        }
    }
}

impl<S: 'static> Worker<S> {
    /// Starts the thread. The thread calls `open` to create what it owns.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot start a thread.
    pub fn start(
        name: &str,
        open: impl FnOnce() -> Result<S, BackendError> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel::<Job<S>>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let mut owned = caught(open);
                for job in inbox {
                    job(owned.as_mut().map_err(|failure| failure.clone()));
                }
            })?;
        Ok(Self { jobs })
    }

    /// Runs a job on the thread. When the job exceeds its time budget, the caller stops waiting; the thread and what it
    /// owns are lost.
    ///
    /// # Errors
    /// Returns a [`Failure`] if `open` failed, or if the job fails, panics or exceeds its time budget
    /// ([`Fault::Hung`]).
    pub async fn run<T: Send + 'static>(
        &self,
        time_budget: Duration,
        job: impl FnOnce(&mut S) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (reply, result) = oneshot::channel();
        let ended = || Failure {
            fault: Fault::Failed,
            detail: "the device's thread has ended".to_owned(),
        };
        let job: Job<S> = Box::new(move |owned| {
            // What the job holds is dropped before the reply is sent, because the receiver may need it back.
            let ran = match owned {
                Ok(owned) => caught(move || job(owned)),
                Err(failure) => {
                    drop(job);
                    Err(failure)
                }
            };
            drop(reply.send(ran));
        });
        self.jobs.send(job).map_err(|_| ended())?;
        match timeout(time_budget, result).await {
            Ok(result) => result.map_err(|_| ended())?,
            Err(_) => Err(Failure {
                fault: Fault::Hung,
                detail: format!("a run did not end within {} ms", time_budget.as_millis()),
            }),
        }
    }
}

/// Turns a panic into a failure of the job alone.
fn caught<T, E>(job: impl FnOnce() -> Result<T, E>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    match catch_unwind(AssertUnwindSafe(job)) {
        Ok(outcome) => outcome.map_err(Failure::from),
        Err(_) => Err(Failure {
            fault: Fault::Failed,
            detail: "the runtime panicked".to_owned(),
        }),
    }
}
