//! The thread that owns a device's session. Accelerators keep handles and memory for each thread that calls them, so that
//! one thread it is.

use std::{
    ops::Range,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use super::cpu::run_caught;
use crate::inference::{
    backend::{BackendError, Batch, Session},
    batcher::Staged,
    health::{Failure, Fault},
    proof::{self, Probe},
    tensor::Tensor,
};

/// Opens a session on the device.
pub type Opener = Arc<dyn Fn() -> Result<Box<dyn Session>, BackendError> + Send + Sync>;

/// The thread, from outside. Dropping it lets the thread end when its run does.
pub(super) struct Worker {
    orders: mpsc::Sender<Order>,
}

/// What a session may start from.
pub(super) enum First {
    /// One that is open.
    Session(Box<dyn Session>),
    /// One to be opened on the thread.
    Open(Opener),
}

/// Rows to run.
pub(super) enum Rows {
    /// Of a slab. The thread holds on to it for as long as it reads it, whoever has given up on the answer.
    Staged(Arc<Staged>, Range<usize>),
    /// Whose answer is known.
    Probe(Arc<Probe>),
}

struct Order {
    rows: Rows,
    reply: oneshot::Sender<Result<Vec<Tensor>, Failure>>,
}

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

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn start(name: &str, first: First) -> std::io::Result<Self> {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(first, &inbox))?;
        Ok(Self { orders })
    }

    /// Runs rows. A run that takes longer than `patience` is given up: the thread is lost with its session.
    pub async fn run(&self, rows: Rows, patience: Duration) -> Result<Vec<Tensor>, Failure> {
        let (reply, answer) = oneshot::channel();
        let ended = || Failure {
            fault: Fault::Failed,
            detail: "the device's thread has ended".to_owned(),
        };
        self.orders
            .send(Order { rows, reply })
            .map_err(|_| ended())?;
        match timeout(patience, answer).await {
            Ok(answer) => answer.map_err(|_| ended())?,
            Err(_) => Err(Failure {
                fault: Fault::Hung,
                detail: format!("a run did not end within {} ms", patience.as_millis()),
            }),
        }
    }
}

fn work(first: First, inbox: &mpsc::Receiver<Order>) {
    let opened = match first {
        First::Session(session) => Ok(session),
        First::Open(open) => open().map_err(Failure::from),
    };
    match opened {
        Ok(mut session) => {
            for order in inbox {
                let ran = match &order.rows {
                    Rows::Staged(staged, rows) => {
                        let batch = Batch {
                            row_shape: &staged.shape,
                            data: staged.values(rows.clone()),
                            frees_memory: staged.unusual,
                        };
                        run_checked(session.as_mut(), batch)
                    }
                    Rows::Probe(probe) => run_checked(session.as_mut(), probe.batch()),
                };
                // Before the answer, as whoever gets it may want the slab's memory back.
                drop(order.rows);
                drop(order.reply.send(ran));
            }
        }
        Err(failure) => {
            for order in inbox {
                drop(order.reply.send(Err(failure.clone())));
            }
        }
    }
}

/// A run whose answers are numbers.
fn run_checked(session: &mut dyn Session, batch: Batch<'_>) -> Result<Vec<Tensor>, Failure> {
    let outputs = run_caught(session, batch)?;
    if proof::are_numbers(&outputs) {
        Ok(outputs)
    } else {
        Err(Failure {
            fault: Fault::WrongAnswer,
            detail: "its answers are no numbers".to_owned(),
        })
    }
}
