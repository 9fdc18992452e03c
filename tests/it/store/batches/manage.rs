//! Cancelling, retrying and listing batches.

use facescan_store::{BatchCounts, BatchFilter, BatchState, ItemOutcome, NewBatch, Store};
use uuid::Uuid;

use super::{LEASE, claim, end, failed, finish, new_batch, ok, stored, submit};
use crate::store::fixtures::{noon, page};

pub async fn cancel_between_chunks(batches: &Store) {
    let batch = submit(batches, new_batch("cancel", 2), 6).await;
    let done = claim(batches, noon()).await.unwrap();
    finish(batches, &done).await;
    let running = claim(batches, noon()).await.unwrap();
    let active = async || batches.active_batches(&[Uuid::nil(), batch.id]).await;
    assert_eq!(active().await.unwrap(), [batch.id]);
    let cancelled = batches
        .cancel_batch("cancel", batch.id, noon())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (cancelled.cancelled, cancelled.batch.state),
        (2, BatchState::Cancelled)
    );
    assert!(active().await.unwrap().is_empty());
    assert!(claim(batches, noon() + LEASE).await.is_none());
    let retry = ItemOutcome::Retry {
        position: 3,
        code: "c".into(),
        detail: "d".into(),
    };
    let finished = batches
        .finish_items(&running.lease, &[ok(2), retry], end())
        .await;
    assert_eq!(
        finished.unwrap().unwrap().finished,
        1,
        "the worker finishes its chunk"
    );
    let stored = stored(batches, &batch).await;
    let counts = BatchCounts {
        ok: 3,
        cancelled: 3,
        ..BatchCounts::default()
    };
    assert_eq!(
        (stored.state, stored.counts),
        (BatchState::Cancelled, counts)
    );
    let again = batches
        .cancel_batch("cancel", batch.id, noon())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(again.cancelled, 0);
}

pub async fn retry_failed_items(batches: &Store) {
    let batch = submit(batches, new_batch("retry", 3), 6).await;
    let first = claim(batches, noon()).await.unwrap();
    let outcomes = [failed(0, true), ok(1), failed(2, false)];
    batches
        .finish_items(&first.lease, &outcomes, end())
        .await
        .unwrap();
    let second = claim(batches, noon()).await.unwrap();
    let outcomes = [failed(3, false), ok(4), ok(5)];
    let done = batches.finish_items(&second.lease, &outcomes, end()).await;
    assert!(done.unwrap().unwrap().is_batch_done);
    assert_eq!(
        batches
            .retry_items("retry", batch.id, noon())
            .await
            .unwrap(),
        Some(3)
    );
    let queued = stored(batches, &batch).await;
    assert_eq!(queued.state, BatchState::Running);
    let counts = BatchCounts {
        ok: 3,
        queued: 3,
        ..BatchCounts::default()
    };
    assert_eq!(queued.counts, counts);
    let mut again = vec![];
    while let Some(chunk) = claim(batches, noon()).await {
        again.extend(
            chunk
                .items
                .iter()
                .map(|item| (item.position, item.attempts)),
        );
        finish(batches, &chunk).await;
    }
    assert_eq!(again, [(0, 0), (2, 0), (3, 0)]);
    let done = stored(batches, &batch).await;
    assert_eq!((done.state, done.counts.ok), (BatchState::Done, 6));
}

pub async fn list_by_name_and_state(batches: &Store) {
    let mine = submit(batches, new_batch("mine", 2), 1).await;
    let all = page(None, 10);
    let filter = BatchFilter::default();
    let unnamed = NewBatch {
        name: None,
        ..new_batch("mine", 2)
    };
    let other = submit(batches, unnamed, 0).await;
    let listed = async |filter: BatchFilter, page| {
        let listed = batches.list_batches("mine", &filter, page).await.unwrap();
        listed.into_iter().map(|batch| batch.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(filter.clone(), all).await, [other.id, mine.id]);
    assert_eq!(listed(filter, page(Some(other.id), 10)).await, [mine.id]);
    let named = BatchFilter {
        name: Some("crawl".into()),
        ..BatchFilter::default()
    };
    assert_eq!(listed(named, all).await, [mine.id]);
    let done = BatchFilter {
        state: Some(BatchState::Done),
        ..BatchFilter::default()
    };
    assert_eq!(listed(done, all).await, [other.id]);
    let chunk = claim(batches, noon()).await.unwrap();
    finish(batches, &chunk).await;
}
