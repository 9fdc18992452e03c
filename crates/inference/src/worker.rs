//! A thread that owns what runs on a device. Accelerators keep handles and memory for each thread that calls them, so that
//! one thread it is.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use super::{
    backend::BackendError,
    health::{Failure, Fault},
};

/// The thread that owns an `S`, from outside. Dropping it lets the thread end when its run does.
pub(super) struct Worker<S> {
    orders: mpsc::Sender<Order<S>>,
}

/// What the thread does with what it owns, or why it owns nothing.
type Order<S> = Box<dyn FnOnce(Result<&mut S, Failure>) + Send>;

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        let fault = match error {
            BackendError::OutOfMemory { .. } => Fault::OutOfMemory,
            _ => Fault::Failed,
        };
        Self {
            fault,
            detail: error.to_string(),
        }
    }
}

impl<S: 'static> Worker<S> {
    /// Starts the thread, which opens what it owns.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn start(
        name: &str,
        open: impl FnOnce() -> Result<S, BackendError> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (orders, inbox) = mpsc::channel::<Order<S>>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let mut owned = caught(open);
                for order in inbox {
                    order(owned.as_mut().map_err(|failure| failure.clone()));
                }
            })?;
        Ok(Self { orders })
    }

    /// Runs a job on the thread. One that takes longer than `patience` is given up: the thread is lost with what it owns.
    pub async fn run<T: Send + 'static>(
        &self,
        patience: Duration,
        job: impl FnOnce(&mut S) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let ended = || Failure {
            fault: Fault::Failed,
            detail: "the device's thread has ended".to_owned(),
        };
        let order: Order<S> = Box::new(move |owned| {
            // What the job holds is let go of before the answer, as whoever gets that may want it back.
            let ran = match owned {
                Ok(owned) => caught(move || job(owned)),
                Err(failure) => {
                    drop(job);
                    Err(failure)
                }
            };
            drop(reply.send(ran));
        });
        self.orders.send(order).map_err(|_| ended())?;
        match timeout(patience, answer).await {
            Ok(answer) => answer.map_err(|_| ended())?,
            Err(_) => Err(Failure {
                fault: Fault::Hung,
                detail: format!("a run did not end within {} ms", patience.as_millis()),
            }),
        }
    }
}

/// What a job gives; a panic is a failure of the job alone.
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
