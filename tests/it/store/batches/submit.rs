//! Creating batches and adding items.

use facescan_store::{BatchState, NewItem, Store};

use super::{add, all_items, claim, finish, items, new_batch};
use crate::store::fixtures::noon;

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
    assert_eq!(stored.created_at, noon());
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
