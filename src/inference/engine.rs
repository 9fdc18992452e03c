//! An engine: the thread that owns a session, and the queue that feeds it.

use std::{sync::Arc, thread, time::Duration};

use thiserror::Error;
use tokio::sync::oneshot;

use crate::{
    clock::Clock,
    inference::{
        backend::{BackendError, Batch, Session},
        tensor::Tensor,
    },
};

/// Batches that may wait for a session before senders have to wait too.
const QUEUE_LENGTH: usize = 256;

/// Runs batches on one session, in the order they came.
///
/// The session lives on a thread of its own, because a run blocks for milliseconds and takes the
/// session exclusively. A batch whose caller has gone is skipped.
#[derive(Clone)]
pub struct Engine {
    queue: flume::Sender<Job>,
    clock: Arc<dyn Clock>,
}

struct Job {
    batch: Batch,
    queued_at: Duration,
    reply: oneshot::Sender<Result<Finished, EngineError>>,
}

/// What a run gave, and how long it took.
#[derive(Debug)]
pub struct Finished {
    /// The graph's outputs; their first dimension is the number of rows sent.
    pub outputs: Vec<Tensor>,
    /// Time spent waiting for the session.
    pub queued: Duration,
    /// Time spent running.
    pub ran: Duration,
}

/// Why an engine did not answer.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The run failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The engine's thread has ended.
    #[error("the inference engine has stopped; restart the server")]
    Stopped,
}

impl Engine {
    /// Starts the thread that owns `session`. It ends when the last clone of the engine is dropped.
    ///
    /// `fixed_batch` is the number of rows that the graph takes at a time, when it takes just that.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        name: &str,
        session: Box<dyn Session>,
        fixed_batch: Option<usize>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let (queue, jobs) = flume::bounded::<Job>(QUEUE_LENGTH);
        let lane = Lane {
            session,
            fixed_batch,
            clock: Arc::clone(&clock),
        };
        thread::Builder::new()
            .name(format!("engine-{name}"))
            .spawn(move || lane.work(&jobs))?;
        Ok(Self { queue, clock })
    }

    /// Runs `batch` and waits for its outputs.
    ///
    /// # Errors
    /// [`EngineError`] when the run fails or the engine has stopped.
    pub async fn run(&self, batch: Batch) -> Result<Finished, EngineError> {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            batch,
            queued_at: self.clock.monotonic(),
            reply,
        };
        self.queue
            .send_async(job)
            .await
            .map_err(|_| EngineError::Stopped)?;
        answer.await.map_err(|_| EngineError::Stopped)?
    }
}

/// The thread's own side of an engine.
struct Lane {
    session: Box<dyn Session>,
    fixed_batch: Option<usize>,
    clock: Arc<dyn Clock>,
}

impl Lane {
    fn work(mut self, jobs: &flume::Receiver<Job>) {
        for job in jobs {
            if job.reply.is_closed() {
                continue;
            }
            let started_at = self.clock.monotonic();
            let finished = self.run(&job.batch).map(|outputs| Finished {
                outputs,
                queued: started_at.saturating_sub(job.queued_at),
                ran: self.clock.monotonic().saturating_sub(started_at),
            });
            // A caller that left during the run has no use for the answer.
            drop(job.reply.send(finished.map_err(EngineError::from)));
        }
    }

    fn run(&mut self, batch: &Batch) -> Result<Vec<Tensor>, BackendError> {
        match self.fixed_batch {
            Some(rows) => self.run_in_pieces(batch, rows.max(1)),
            None => self.session.run(batch),
        }
    }

    /// Runs a fixed-batch graph as often as the rows need, the last time padded with zeros.
    fn run_in_pieces(&mut self, batch: &Batch, rows: usize) -> Result<Vec<Tensor>, BackendError> {
        let mut whole: Vec<Tensor> = Vec::new();
        for piece in batch.data.chunks(rows * batch.row_len()) {
            let filled = piece.len() / batch.row_len();
            let mut data = piece.to_vec();
            data.resize(rows * batch.row_len(), 0.0);
            let outputs = self.session.run(&Batch {
                row_shape: batch.row_shape.clone(),
                data,
            })?;
            for (position, output) in outputs.into_iter().enumerate() {
                let output = output.into_rows(rows, filled);
                match whole.get_mut(position) {
                    Some(joined) => joined.append(output),
                    None => whole.push(output),
                }
            }
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests;
