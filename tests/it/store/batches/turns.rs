//! The turns of tenants and workers.

use facescan_store::{BatchState, NewBatch, Store};

use super::{claim, claim_at, finish, new_batch, stored, submit};
use crate::store::fixtures::noon;

/// Tenants take turns, however much each has queued, and a tenant that comes later does not wait for the others.
pub async fn take_turns(batches: &Store) {
    submit(batches, new_batch("crowd", 2), 12).await;
    let mut turns = vec![];
    for _ in 0..2 {
        turns.push(claim(batches, noon()).await.unwrap());
    }
    submit(batches, new_batch("guest", 2), 4).await;
    submit(batches, new_batch("crowd", 2), 2).await;
    while let Some(chunk) = claim(batches, noon()).await {
        turns.push(chunk);
    }
    let tenants: Vec<_> = turns.iter().map(|chunk| chunk.tenant.as_str()).collect();
    let (first, rest) = tenants.split_at(2);
    assert_eq!(first, ["crowd"; 2]);
    assert_eq!(rest.len(), 7);
    assert_eq!(
        rest[..4]
            .iter()
            .filter(|tenant| **tenant == "guest")
            .count(),
        2
    );
    for chunk in &turns {
        finish(batches, chunk).await;
    }
}

pub async fn leave_other_models_alone(batches: &Store) {
    let batch = NewBatch {
        models_key: [2; 32],
        ..new_batch("models", 2)
    };
    submit(batches, batch, 1).await;
    assert!(claim(batches, noon()).await.is_none());
    let mut request = claim_at(noon());
    request.models_keys = vec![[2; 32]];
    request.except = vec!["another".to_owned(), "models".to_owned()];
    assert!(batches.claim_chunk(&request).await.unwrap().is_none());
    request.except = vec!["another".to_owned()];
    let chunk = batches.claim_chunk(&request).await.unwrap().unwrap();
    finish(batches, &chunk).await;
    request.models_keys.clear();
    assert!(batches.claim_chunk(&request).await.unwrap().is_none());
}

pub async fn claim_concurrently(batches: &Store) {
    const CHUNKS: usize = 40;
    let batch = submit(batches, new_batch("together", 1), CHUNKS).await;
    let workers = (0..8).map(|_| {
        let batches = batches.clone();
        tokio::spawn(async move {
            let mut positions = vec![];
            while let Some(chunk) = claim(&batches, noon()).await {
                positions.extend(chunk.items.iter().map(|item| item.position));
                finish(&batches, &chunk).await;
            }
            positions
        })
    });
    let mut positions = vec![];
    for worker in workers.collect::<Vec<_>>() {
        positions.extend(worker.await.unwrap());
    }
    positions.sort_unstable();
    assert_eq!(positions, (0..CHUNKS as u64).collect::<Vec<_>>());
    let done = stored(batches, &batch).await;
    assert_eq!(
        (done.state, done.counts.ok),
        (BatchState::Done, CHUNKS as u64)
    );
    let depth = batches.queue_depth(noon()).await.unwrap();
    assert_eq!(depth, facescan_store::QueueDepth::default());
}
