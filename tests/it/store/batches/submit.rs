//! Creating batches and adding items.

use facescan_store::{BatchState, CreatedBatch, NewBatch, NewItem, Store};
use serde_json::json;
use uuid::Uuid;

use super::{add, all_items, claim, complete, finish, items, new_batch};
use crate::store::fixtures::noon;

pub async fn create_once(batches: &Store) {
    let batch = NewBatch {
        idempotency_key: Some("key".into()),
        ..new_batch("create", 4)
    };
    let CreatedBatch::New(created) = batches.create_batch(&batch).await.unwrap() else {
        panic!("the batch is not new");
    };
    assert_eq!(created.state, BatchState::Open);
    assert_eq!((created.created_at, created.request_digest), (noon(), None));
    assert_eq!(created.options, batch.options);
    let again = NewBatch {
        id: Uuid::now_v7(),
        ..batch.clone()
    };
    let existing = batches.create_batch(&again).await.unwrap();
    assert_eq!(existing, CreatedBatch::Existing(created.clone()));
    let other = NewBatch {
        id: Uuid::now_v7(),
        tenant: "create too".into(),
        ..batch
    };
    let other = batches.create_batch(&other).await.unwrap();
    assert!(matches!(other, CreatedBatch::New(_)), "another tenant");
    // An empty batch is done when it is closed.
    let closed = complete(batches, created.id, [3; 32]).await.unwrap();
    assert_eq!(closed.receipt, Some(json!({"accepted": 1})));
    assert_eq!(closed.state, BatchState::Done);
    assert_eq!(closed.request_digest, Some([3; 32]));
}

pub async fn add_each_id_once(batches: &Store) {
    let batch = new_batch("add", 4);
    batches.create_batch(&batch).await.unwrap();
    let first = items(6);
    let added = add(batches, batch.id, &first, Some(0)).await.unwrap();
    assert_eq!((added.accepted, added.duplicates), (6, 0));
    let late = add(batches, batch.id, &items(1), Some(0)).await;
    assert_eq!(late, None, "another request has written since");
    let mut more = items(8);
    more.push(NewItem::default());
    more.push(more[0].clone());
    let added = add(batches, batch.id, &more, Some(6)).await.unwrap();
    assert_eq!((added.accepted, added.duplicates), (3, 7));
    let stored = batches.batch("add", batch.id).await.unwrap().unwrap();
    assert_eq!((stored.accepted, stored.submitted), (9, 16));
    assert_eq!(stored.counts.queued, 9);
    let ids: Vec<_> = all_items(batches, batch.id)
        .await
        .into_iter()
        .map(|item| (item.position, item.id))
        .collect();
    let expected = (0..8).map(|index| (index, Some(format!("item {index}"))));
    assert_eq!(ids, expected.chain([(8, None)]).collect::<Vec<_>>());
    // An open batch is processed, and is done only after it is closed.
    let mut sizes = vec![];
    while let Some(chunk) = claim(batches, noon()).await {
        sizes.push(chunk.items.len());
        assert!(!finish(batches, &chunk).await);
    }
    assert_eq!(sizes, [4, 2, 3]);
    let closed = batches.close_batch("add", batch.id, noon()).await.unwrap();
    assert_eq!(closed.unwrap().state, BatchState::Done);
    let late = add(batches, batch.id, &items(1), None).await;
    assert_eq!(late, None, "the batch is closed");
}
