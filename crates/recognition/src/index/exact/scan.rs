//! Searches that share a pass over the rows of a collection.

use std::sync::Arc;

use facescan_index::{Proposal, Query, Segment, TopK};
use facescan_inference::pool::{CpuPool, PoolError, Stage};
use futures::{TryStreamExt, stream::FuturesUnordered};
use tokio::sync::oneshot;

use super::{super::IndexError, loaded::LoadedCollection, queue::WaitingSearch};

/// Returns the rows that are most similar to a query.
pub(super) async fn search(
    collection: &Arc<LoadedCollection>,
    pool: &Arc<CpuPool>,
    query: Query,
    rows: usize,
) -> Result<Vec<Proposal>, IndexError> {
    let (reply, answer) = oneshot::channel();
    let search = WaitingSearch { query, rows, reply };
    if collection.queue().add(search) {
        // A task of its own, because the request that starts it can be cancelled.
        let (collection, pool) = (Arc::clone(collection), Arc::clone(pool));
        tokio::spawn(async move { run_passes(&collection, &pool).await });
    }
    Ok(answer.await.unwrap_or(Err(PoolError::Closed))?)
}

/// Runs passes until no search waits.
async fn run_passes(collection: &LoadedCollection, pool: &CpuPool) {
    while let Some(searches) = next(collection) {
        let (mut queries, mut replies) = (Vec::new(), Vec::new());
        for search in searches {
            queries.push((search.query, search.rows));
            replies.push(search.reply);
        }
        let best = match collection.snapshot().await {
            Some(snapshot) => pass(pool, &snapshot, queries).await,
            // Every search was queued after the collection was loaded, but a fault has unloaded it.
            None => Err(PoolError::Closed),
        };
        // A request that was cancelled needs no response.
        match best {
            Ok(best) => {
                for (reply, best) in replies.into_iter().zip(best) {
                    reply.send(Ok(best.into_sorted())).ok();
                }
            }
            Err(error) => {
                for reply in replies {
                    reply.send(Err(error)).ok();
                }
            }
        }
    }
}

/// Takes the searches of the next pass, and releases the lock of the queue.
fn next(collection: &LoadedCollection) -> Option<Vec<WaitingSearch>> {
    collection.queue().take()
}

/// Scans every segment, each as a job of the pool. Returns the best rows for each query.
async fn pass(
    pool: &CpuPool,
    segments: &[Arc<Segment>],
    queries: Vec<(Query, usize)>,
) -> Result<Vec<TopK>, PoolError> {
    let mut best: Vec<TopK> = queries.iter().map(|(_, rows)| TopK::new(*rows)).collect();
    let (queries, rows): (Vec<Query>, Vec<usize>) = queries.into_iter().unzip();
    let (queries, rows) = (Arc::new(queries), Arc::new(rows));
    let scans = segments.iter().map(|segment| {
        let (segment, queries, rows) =
            (Arc::clone(segment), Arc::clone(&queries), Arc::clone(&rows));
        pool.run(Stage::Infer, move || scan(&segment, &queries, &rows))
    });
    // Each result is merged as soon as it is there, because many of them take much memory.
    let mut scans: FuturesUnordered<_> = scans.collect();
    while let Some(of_segment) = scans.try_next().await? {
        for (best, other) in best.iter_mut().zip(of_segment) {
            best.merge(other);
        }
    }
    Ok(best)
}

fn scan(segment: &Segment, queries: &[Query], rows: &[usize]) -> Vec<TopK> {
    let mut best: Vec<TopK> = rows.iter().map(|rows| TopK::new(*rows)).collect();
    segment.scan(queries, &mut best);
    best
}
