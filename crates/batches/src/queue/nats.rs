//! The queue on NATS JetStream: a work-queue stream with one message for each chunk that is ready.
//!
//! A message says that there is one more chunk. The worker that gets it claims the chunk whose turn it is in the database,
//! so the turns between tenants are the same with every queue. The stream has a subject for each chunk and keeps one message
//! a subject, so a chunk that is announced twice wakes one worker.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, anyhow};
use async_nats::{
    Client, ConnectOptions,
    jetstream::{
        self,
        consumer::{AckPolicy, PullConsumer, pull},
        stream::{Config as StreamConfig, DiscardPolicy, RetentionPolicy, StorageType},
    },
};
use async_trait::async_trait;
use facescan_clock::Clock;
use facescan_store::{ReadyChunk, Store};
use futures::{StreamExt, future::try_join_all};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Mutex, Notify};

use super::WorkQueue;

/// The name of the stream, and the first part of its subjects.
const STREAM: &str = "facescan-batches";
const SUBJECT: &str = "facescan.batches";
const CONSUMER: &str = "workers";

/// The time in which a worker must acknowledge a message. It does so before it claims a chunk.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// The time limit of a request to the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of chunks that are announced at a time.
const CHUNKS_PER_CALL: u32 = 1000;

/// A chunk that is still ready after this time is announced again, because the queue may have lost it.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// The chunks that the server must be told of. They stand in the database, so that a crash loses none.
pub struct Outbox {
    /// The batches in the database.
    pub store: Store,
    /// The clock of the application.
    pub clock: Arc<dyn Clock>,
    /// How often to look for chunks that another process has made ready.
    pub poll: Duration,
}

/// The queue on a NATS server.
pub struct NatsQueue {
    client: Client,
    outbox: Outbox,
    /// The consumer, once the stream is known to exist. `None` after an error.
    consumer: Mutex<Option<Arc<PullConsumer>>>,
    submitted: Notify,
}

impl NatsQueue {
    /// Creates a queue for the chunks of `outbox`, with the token of the server if it has one. A server that is unreachable is connected
    /// to later.
    ///
    /// # Errors
    /// Returns an error if the URL cannot be read.
    pub async fn connect(
        url: &SecretString,
        token: Option<&SecretString>,
        outbox: Outbox,
    ) -> anyhow::Result<Self> {
        let options = match token {
            None => ConnectOptions::new(),
            Some(token) => ConnectOptions::with_token(token.expose_secret().to_owned()),
        };
        let client = options
            .name("facescan")
            .retry_on_initial_connect()
            .request_timeout(Some(REQUEST_TIMEOUT))
            .connect(url.expose_secret())
            .await
            .context("reading batches.queue")?;
        Ok(Self {
            client,
            outbox,
            consumer: Mutex::default(),
            submitted: Notify::new(),
        })
    }

    /// Returns the consumer. Creates the stream if the server does not have it, also after its storage was removed.
    async fn consumer(&self) -> anyhow::Result<Arc<PullConsumer>> {
        let mut known = self.consumer.lock().await;
        if let Some(consumer) = known.as_ref() {
            return Ok(Arc::clone(consumer));
        }
        let jetstream = self.jetstream();
        let stream = jetstream.get_or_create_stream(StreamConfig {
            name: STREAM.to_owned(),
            subjects: vec![format!("{SUBJECT}.>")],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            max_messages_per_subject: 1,
            discard: DiscardPolicy::Old,
            ..StreamConfig::default()
        });
        let stream = stream.await.map_err(failed)?;
        let consumer = stream.get_or_create_consumer(
            CONSUMER,
            pull::Config {
                durable_name: Some(CONSUMER.to_owned()),
                ack_policy: AckPolicy::Explicit,
                ack_wait: ACK_WAIT,
                max_ack_pending: -1,
                ..pull::Config::default()
            },
        );
        let consumer = Arc::new(consumer.await.map_err(failed)?);
        *known = Some(Arc::clone(&consumer));
        Ok(consumer)
    }

    fn jetstream(&self) -> jetstream::Context {
        let mut context = jetstream::new(self.client.clone());
        context.set_timeout(REQUEST_TIMEOUT);
        context
    }

    /// Clears the consumer, so that the next call looks for the stream again.
    async fn forget(&self) {
        *self.consumer.lock().await = None;
    }

    /// Waits for one message and acknowledges it.
    async fn next(&self, patience: Duration) -> anyhow::Result<()> {
        let consumer = self.consumer().await?;
        let batch = consumer.batch().max_messages(1).expires(patience);
        let mut messages = batch.messages().await.map_err(failed)?;
        match messages.next().await {
            Some(Ok(message)) => message.double_ack().await.map_err(failed),
            Some(Err(error)) => Err(failed(error)),
            None => Ok(()),
        }
    }

    /// Announces the oldest chunks. Returns whether there may be more.
    async fn announce(&self) -> anyhow::Result<bool> {
        let Outbox { store, clock, .. } = &self.outbox;
        let now = clock.now();
        let ready = store.unannounced_chunks(now, now - REPEAT_AFTER, CHUNKS_PER_CALL);
        let ready = ready.await?;
        if !ready.is_empty() {
            self.publish(&ready).await?;
            store.mark_announced(&ready, now).await?;
        }
        Ok(ready.len() == CHUNKS_PER_CALL as usize)
    }

    /// Tells the server of chunks. It does not add those that it has already.
    async fn publish(&self, chunks: &[ReadyChunk]) -> anyhow::Result<()> {
        // Without the stream, nothing would keep the messages.
        self.consumer().await?;
        let jetstream = self.jetstream();
        let mut acknowledgments = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let payload = format!("{}/{}", chunk.batch, chunk.number);
            let published = jetstream.publish(subject(chunk), payload.into()).await;
            acknowledgments.push(published.map_err(failed)?.into_future());
        }
        let acknowledged = try_join_all(acknowledgments).await;
        if let Err(error) = acknowledged {
            self.forget().await;
            return Err(failed(error));
        }
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the queue cannot be used: {error}")
}

/// Returns the subject of a chunk. A tenant can have dots, which separate the parts of a subject.
fn subject(chunk: &ReadyChunk) -> String {
    let tenant = chunk.tenant.replace('.', "_");
    let (priority, batch, number) = (&chunk.priority, chunk.batch, chunk.number);
    format!("{SUBJECT}.{priority}.{tenant}.{batch}.{number}")
}

#[async_trait]
impl WorkQueue for NatsQueue {
    fn submitted(&self) {
        self.submitted.notify_one();
    }

    async fn wait(&self, patience: Duration) {
        let waited = tokio::time::timeout(patience + REQUEST_TIMEOUT, self.next(patience)).await;
        let error = match waited {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not answer".to_owned(),
        };
        // Without the queue, the worker looks at the database as it does with the local queue.
        tracing::warn!(
            error,
            "the queue of batches cannot be used; the worker looks at the database"
        );
        self.forget().await;
        tokio::time::sleep(patience).await;
    }

    async fn run(&self) {
        loop {
            match self.announce().await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "chunks cannot be announced now; workers find them in the database");
                }
            }
            // A timeout is the usual end of this wait.
            tokio::time::timeout(self.outbox.poll, self.submitted.notified())
                .await
                .ok();
        }
    }
}
