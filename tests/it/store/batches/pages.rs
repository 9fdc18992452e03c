//! Pages of items and of batches.

use facescan_store::{BatchFilter, ItemFilter, ItemOutcome, ItemPage, ItemState, NewScan, Store};
use serde_json::json;
use uuid::Uuid;

use super::{claim, end, new_batch, noon, ok, scanned, submit};
use crate::store::fixtures::{face_at, new_scan, page};

/// A page of items ends by its number or by the bytes of results, and the next one continues after it.
pub async fn end_a_page_of_items_by_bytes(batches: &Store) {
    let batch = submit(batches, new_batch("item pages", 10), 6).await;
    let chunk = claim(batches, noon()).await.unwrap();
    // Item 0 has about 6 KB of faces with vectors, item 1 about 8 KB of JSON, and the others have almost nothing.
    let scan = NewScan {
        faces: (0..10).map(|place| face_at(200.0 * place as f32)).collect(),
        ..new_scan("item pages", 1)
    };
    let with_faces = scanned(0, scan);
    let with_text = ItemOutcome::Ok {
        position: 1,
        scan: None,
        result: Some(json!({"text": "x".repeat(1000)})),
        is_copy: false,
    };
    let mut outcomes = vec![with_faces, with_text];
    outcomes.extend((2..6).map(ok));
    let finished = batches.finish_items(&chunk.lease, &outcomes, end());
    assert!(finished.await.unwrap().unwrap().is_batch_done);

    for (limit, max_bytes, expected) in [
        (100, u64::MAX, &[6][..]),
        (6, u64::MAX, &[6]),
        (4, u64::MAX, &[4, 2]),
        (100, 6_500, &[1, 1, 4]),
        (100, 0, &[1, 1, 1, 1, 1, 1]),
    ] {
        for state in [None, Some(ItemState::Ok)] {
            let found = pages(batches, batch.id, state, (limit, max_bytes)).await;
            let sizes: Vec<_> = found.iter().map(Vec::len).collect();
            assert_eq!(sizes, expected, "{limit} {max_bytes} {state:?}");
            assert_eq!(found.concat(), (0..6).collect::<Vec<_>>());
        }
    }
    let none = pages(batches, batch.id, Some(ItemState::Dead), (10, 10)).await;
    assert_eq!(none, [[0_u64; 0]]);
}

/// Returns the positions of each page.
async fn pages(
    batches: &Store,
    batch: Uuid,
    state: Option<ItemState>,
    (limit, max_bytes): (u32, u64),
) -> Vec<Vec<u64>> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = ItemPage {
            after,
            limit,
            max_bytes,
        };
        let list = batches.list_items(batch, ItemFilter { state }, page).await;
        let list = list.unwrap();
        let positions: Vec<u64> = list.items.iter().map(|item| item.position).collect();
        after = positions.last().copied();
        pages.push(positions);
        if !list.has_more {
            return pages;
        }
    }
}

/// A receipt can have a thousand refused entries, so lists of batches are without them.
pub async fn leave_receipts_out_of_lists(batches: &Store) {
    let batch = submit(batches, new_batch("receipts", 10), 1).await;
    assert!(batch.receipt.is_some());
    let filter = BatchFilter::default();
    let listed = batches
        .list_batches("receipts", &filter, page(None, 10))
        .await;
    let listed = listed.unwrap();
    assert_eq!((listed[0].id, &listed[0].receipt), (batch.id, &None));
    batches
        .cancel_batch("receipts", batch.id, noon())
        .await
        .unwrap();
}
