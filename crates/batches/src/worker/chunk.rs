//! One chunk: process its items under a lease, and save the outcomes.

use std::{collections::HashMap, time::Duration};

use facescan_pipeline::{
    admission::Priority,
    context::{Principal, RequestContext, RequestId},
    core::error::PipelineError,
};
use facescan_store::{ChunkEnd, ItemOutcome, LeasedChunk, LeasedItem, StoreError};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::{
    Worker,
    item::{Failure, ItemEnd, ItemRunner},
};
use crate::{operation::BatchPlan, running::RunningChunk};

/// An item whose attempts all ended with the death of the worker.
const WORKER_DIED: &str = "worker_died";

/// The longest wait before the outcomes are saved again.
const MAX_SAVE_WAIT: Duration = Duration::from_secs(5);

/// The processing of one chunk.
pub(super) struct ChunkRun<'a> {
    worker: &'a Worker,
    chunk: LeasedChunk,
    context: RequestContext,
    running: RunningChunk,
}

/// The outcomes of the items that ended.
#[derive(Default)]
struct Outcomes {
    ended: Vec<ItemOutcome>,
    /// The most attempts of an item that is tried again, and whether an item waits for the installation.
    most_attempts: u32,
    has_waiting: bool,
}

/// The lease belongs to another worker.
#[derive(Debug)]
struct LeaseLost;

impl<'a> ChunkRun<'a> {
    pub(super) fn new(worker: &'a Worker, chunk: LeasedChunk, span: Span) -> Self {
        let id = RequestId::generate(worker.batches.clock());
        let principal = Principal {
            key_id: chunk.key_id.as_deref().map(Into::into),
            ..Principal::of_tenant(&chunk.tenant)
        };
        let mut context = RequestContext::new(id, principal);
        context.priority = match chunk.priority == Priority::Interactive.name() {
            true => Priority::Interactive,
            false => Priority::Bulk,
        };
        context.span = span;
        Self {
            running: worker.batches.running.begin(chunk.lease.batch),
            worker,
            chunk,
            context,
        }
    }

    /// Processes the items and saves the outcomes.
    pub(super) async fn process(self, stop: &CancellationToken) {
        let started = self.worker.batches.clock().monotonic();
        let ended = match self.plan() {
            Err(error) => {
                tracing::error!(%error, "the chunk cannot be processed; its items wait");
                let outcomes = Outcomes {
                    has_waiting: true,
                    ..Outcomes::default()
                };
                self.save(outcomes, stop).await
            }
            Ok(plan) => {
                // The lease is extended until the outcomes are saved.
                tokio::select! {
                    lost = self.extend_lease() => Err(lost),
                    saved = self.run(&plan, stop) => saved,
                }
            }
        };
        let metrics = self.worker.batches.metrics();
        match ended {
            Ok(()) => {
                let elapsed = self.worker.batches.clock().monotonic() - started;
                tracing::debug!(items = self.chunk.items.len(), ?elapsed, "chunk done");
            }
            Err(LeaseLost) if self.running.is_stopped() => {
                tracing::debug!("the batch was deleted");
            }
            Err(LeaseLost) => {
                metrics.batch_lease_lost();
                tracing::warn!("the lease was lost; another worker processes the chunk");
            }
        }
    }

    /// Resolves the stored options. They were checked when the batch was submitted.
    fn plan(&self) -> Result<BatchPlan, PipelineError> {
        let batches = &self.worker.batches;
        let pipeline = &batches.runner.pipeline;
        let chunk = &self.chunk;
        BatchPlan::from_stored(&chunk.operation, &chunk.options, &batches.config, pipeline)
    }

    async fn run(&self, plan: &BatchPlan, stop: &CancellationToken) -> Result<(), LeaseLost> {
        let runner = ItemRunner {
            batches: &self.worker.batches,
            batch: self.chunk.lease.batch,
            plan,
            context: &self.context,
            describe: self.worker.describe,
        };
        let outcomes = if self.chunk.expired_leases == 0 {
            let _beside_others = self.worker.isolation.read().await;
            self.run_together(&runner, stop).await
        } else {
            tracing::info!(
                expired_leases = self.chunk.expired_leases,
                "a worker died with this chunk; its items run one by one"
            );
            self.run_alone(&runner, stop).await?
        };
        self.save(outcomes, stop).await
    }

    /// Processes several items at a time.
    async fn run_together(&self, runner: &ItemRunner<'_>, stop: &CancellationToken) -> Outcomes {
        let all: Vec<_> = self.chunk.items.iter().collect();
        let known = runner.known(&all).await;
        let mut outcomes = Outcomes::default();
        let mut unknown = Vec::with_capacity(all.len());
        for item in all {
            match runner.end_of_known(item, &known) {
                Some(end) => self.add(&mut outcomes, item, end, item.attempts + 1),
                None => unknown.push(item),
            }
        }
        let (items, copies) = without_copies(unknown);
        let runs: Vec<BoxFuture<'_, _>> = items
            .into_iter()
            .map(|item| async move { (item, runner.run(item).await) }.boxed())
            .collect();
        let in_flight = self.worker.batches.config.batches.in_flight;
        let mut ends = stream::iter(runs).buffer_unordered(in_flight);
        let mut later = Vec::new();
        loop {
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                () = self.running.stopped() => None,
                ended = ends.next() => ended,
            };
            let Some((item, end)) = ended else { break };
            let same = item.payload.and_then(|payload| copies.get(&payload));
            for &copy in same.into_iter().flatten() {
                match end.for_copy(&self.worker.batches, copy) {
                    Some(end) => self.add(&mut outcomes, copy, end, copy.attempts + 1),
                    None => later.push(copy),
                }
            }
            self.add(&mut outcomes, item, end, item.attempts + 1);
        }
        // Items in work are dropped before the outcomes are saved.
        drop(ends);
        for item in later {
            if stop.is_cancelled() {
                break;
            }
            let Some(end) = self.unless_stopped(runner.run(item)).await else {
                break;
            };
            self.add(&mut outcomes, item, end, item.attempts + 1);
        }
        outcomes
    }

    /// Processes one item at a time, with nothing beside it in this process. Each attempt is counted before it begins, and
    /// each outcome is saved at once.
    async fn run_alone(
        &self,
        runner: &ItemRunner<'_>,
        stop: &CancellationToken,
    ) -> Result<Outcomes, LeaseLost> {
        let mut all = Outcomes::default();
        for item in &self.chunk.items {
            if stop.is_cancelled() || self.running.is_stopped() {
                break;
            }
            let mut outcomes = Outcomes::default();
            if item.attempts >= self.worker.batches.config.batches.max_attempts {
                let end = ItemEnd::Failed {
                    failure: Failure::Temporary,
                    code: WORKER_DIED.to_owned(),
                    detail: "the worker died at each attempt with this image".to_owned(),
                };
                self.add(&mut outcomes, item, end, item.attempts);
            } else {
                let _alone = self.worker.isolation.write().await;
                self.begin(item, stop).await?;
                let Some(end) = self.unless_stopped(runner.run(item)).await else {
                    break;
                };
                self.add(&mut outcomes, item, end, item.attempts + 1);
            }
            all.most_attempts = all.most_attempts.max(outcomes.most_attempts);
            all.has_waiting |= outcomes.has_waiting;
            self.save_some(outcomes.ended, ChunkEnd::Keep, stop).await?;
        }
        Ok(all)
    }

    /// Runs an item. Returns `None`, and drops the item, if its batch is cancelled or deleted meanwhile.
    async fn unless_stopped(&self, item: impl Future<Output = ItemEnd>) -> Option<ItemEnd> {
        tokio::select! {
            biased;
            () = self.running.stopped() => None,
            end = item => Some(end),
        }
    }

    fn add(&self, outcomes: &mut Outcomes, item: &LeasedItem, end: ItemEnd, attempts: u32) {
        let max_attempts = self.worker.batches.config.batches.max_attempts;
        let Some(outcome) = end.outcome(item.position, attempts, max_attempts) else {
            outcomes.has_waiting = true;
            return;
        };
        if matches!(outcome, ItemOutcome::Retry { .. }) {
            outcomes.most_attempts = outcomes.most_attempts.max(attempts);
        }
        let metrics = self.worker.batches.metrics();
        metrics.batch_item(outcome_name(&outcome));
        outcomes.ended.push(outcome);
    }

    /// Counts an attempt in the database.
    async fn begin(&self, item: &LeasedItem, stop: &CancellationToken) -> Result<(), LeaseLost> {
        let store = &self.worker.batches.store;
        let lease = &self.chunk.lease;
        let begun = self.until_available(stop, || store.begin_item(lease, item.position).boxed());
        match begun.await {
            Some(true) => Ok(()),
            Some(false) | None => Err(LeaseLost),
        }
    }

    /// Saves the outcomes and returns the chunk.
    async fn save(&self, outcomes: Outcomes, stop: &CancellationToken) -> Result<(), LeaseLost> {
        let now = self.worker.batches.clock().now();
        let wait = match (outcomes.most_attempts, outcomes.has_waiting) {
            (0, false) => Duration::ZERO,
            (attempts, _) => self.worker.backoff(attempts.max(1)),
        };
        let end = ChunkEnd::Return {
            now,
            retry_at: now + wait,
        };
        self.save_some(outcomes.ended, end, stop).await
    }

    async fn save_some(
        &self,
        outcomes: Vec<ItemOutcome>,
        end: ChunkEnd,
        stop: &CancellationToken,
    ) -> Result<(), LeaseLost> {
        let store = &self.worker.batches.store;
        let lease = &self.chunk.lease;
        let saved =
            self.until_available(stop, || store.finish_items(lease, &outcomes, end).boxed());
        match saved.await.flatten() {
            Some(finished) => {
                if finished.is_batch_done {
                    tracing::info!("batch done");
                }
                Ok(())
            }
            None => Err(LeaseLost),
        }
    }

    /// Repeats a call while the database is unavailable. Returns `None` if the call fails in another way, or if it fails and
    /// the process is to stop. The lease then ends, and another worker processes the chunk.
    async fn until_available<'b, T>(
        &self,
        stop: &CancellationToken,
        call: impl Fn() -> BoxFuture<'b, Result<T, StoreError>>,
    ) -> Option<T> {
        let mut attempt = 0;
        loop {
            match call().await {
                Ok(value) => return Some(value),
                Err(error) if error.is_unavailable() && !stop.is_cancelled() => {
                    attempt += 1;
                    let wait = self.worker.backoff(attempt).min(MAX_SAVE_WAIT);
                    tracing::warn!(%error, ?wait, "the database is unavailable; the worker waits");
                    tokio::time::sleep(wait).await;
                }
                Err(error) => {
                    tracing::error!(%error, "the outcomes of a chunk cannot be saved");
                    return None;
                }
            }
        }
    }

    /// Extends the lease three times in its length. Returns when it is lost.
    async fn extend_lease(&self) -> LeaseLost {
        let batches = &self.worker.batches;
        let length = batches.config.batches.lease_ms.duration();
        loop {
            tokio::time::sleep(length / 3).await;
            let until = batches.clock().now() + length;
            match batches.store.extend_lease(&self.chunk.lease, until).await {
                Ok(true) => {}
                Ok(false) => return LeaseLost,
                // If the database is unreachable, no other worker can take the lease.
                Err(error) => tracing::warn!(%error, "the lease cannot be extended now"),
            }
        }
    }
}

/// Returns the items without those whose image another item before has. Returns these by the hash of the image.
fn without_copies(
    items: Vec<&LeasedItem>,
) -> (Vec<&LeasedItem>, HashMap<[u8; 32], Vec<&LeasedItem>>) {
    let mut copies: HashMap<[u8; 32], Vec<&LeasedItem>> = HashMap::new();
    let mut first = Vec::with_capacity(items.len());
    for item in items {
        match item.payload {
            Some(payload) => match copies.get_mut(&payload) {
                Some(same) => same.push(item),
                None => {
                    copies.insert(payload, Vec::new());
                    first.push(item);
                }
            },
            None => first.push(item),
        }
    }
    (first, copies)
}

fn outcome_name(outcome: &ItemOutcome) -> &'static str {
    match outcome {
        ItemOutcome::Ok { .. } => "ok",
        ItemOutcome::Failed { is_dead: true, .. } => "dead",
        ItemOutcome::Failed { is_dead: false, .. } => "error",
        ItemOutcome::Retry { .. } => "retry",
    }
}
