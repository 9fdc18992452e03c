//! Leases, and the outcomes of items.

use facescan_store::{
    BatchCounts, BatchState, ChunkEnd, ErasureTarget, ItemFilter, ItemOutcome, ItemPage, ItemState,
    JsonText, NewScan, ScanOutcome, Store,
};
use serde_json::json;
use time::Duration;
use uuid::Uuid;

use super::{LEASE, all_items, claim, end, failed, finish, new_batch, ok, scanned, stored, submit};
use crate::store::fixtures::{erase, face_at, find, new_scan, noon};
use crate::support::database::Database;

pub async fn finish_a_batch(store: &Store) {
    let batch = submit(store, new_batch("finish", 3), 5).await;
    assert_eq!(batch.state, BatchState::Queued);
    let first = claim(store, noon()).await.unwrap();
    assert_eq!(
        (first.tenant.as_str(), first.operation.as_str()),
        ("finish", "embed")
    );
    assert_eq!((first.expired_leases, first.items.len()), (0, 3));
    assert_eq!(first.items[1].payload, Some([1; 32]));
    let running = stored(store, &batch).await;
    assert_eq!(running.state, BatchState::Running);
    assert_eq!((running.counts.running, running.counts.queued), (3, 2));
    let filter = ItemFilter {
        state: Some(ItemState::Running),
    };
    let page = ItemPage {
        after: Some(0),
        limit: 10,
        max_bytes: u64::MAX,
    };
    let listed = store.list_items(batch.id, filter, page).await.unwrap();
    let positions = listed.items.iter().map(|item| item.position);
    assert_eq!(positions.collect::<Vec<_>>(), [1, 2]);

    let mut scan = new_scan("finish", 1);
    scan.faces = vec![face_at(1.0)];
    let again = NewScan {
        id: Uuid::now_v7(),
        faces: vec![face_at(2.0)],
        ..scan.clone()
    };
    let outcomes = [
        scanned(0, scan.clone()),
        failed(1, false),
        // The same image again: the first scan is kept.
        scanned(2, again),
    ];
    let done = store
        .finish_items(&first.lease, &outcomes, end())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((done.finished, done.is_batch_done), (3, false));
    let second = claim(store, noon()).await.unwrap();
    assert!(finish(store, &second).await, "the batch is done");
    assert!(claim(store, noon()).await.is_none());

    let done = stored(store, &batch).await;
    assert_eq!(
        (done.state, done.finished_at),
        (BatchState::Done, Some(noon()))
    );
    let counts = BatchCounts {
        ok: 4,
        cached: 1,
        error: 1,
        ..BatchCounts::default()
    };
    assert_eq!(done.counts, counts);
    let listed = all_items(store, batch.id).await;
    assert_eq!(listed[0].result.scan_id, Some(scan.id));
    assert_eq!(listed[1].state, ItemState::Error);
    assert_eq!(
        listed[1].error,
        Some(("image_corrupt".into(), "the file is damaged".into()))
    );
    assert!(listed[2].cached);
    assert_eq!(listed[3].result.result, Some(json!({"faces": 3})));
    let metadata = listed[3].metadata.as_ref().and_then(JsonText::get);
    assert_eq!(metadata, Some(r#"{"page":3}"#));
    assert!(listed.iter().all(|item| item.attempts == 1));
    let found = store.result_of_payload(batch.id, [3; 32]).await.unwrap();
    assert_eq!(found, Some(json!({"faces": 3})));
    let image = find(store, &scan).await.unwrap();
    assert_eq!(image.faces.len(), 1);
}

/// A worker that lost its lease writes nothing.
pub async fn lose_a_lease(store: &Store, database: &Database) {
    let batch = submit(store, new_batch("lease", 2), 2).await;
    let lost = claim(store, noon()).await.unwrap();
    let later = noon() + LEASE / 2;
    assert!(
        store
            .extend_lease(&lost.lease, later + LEASE)
            .await
            .unwrap()
    );
    assert!(
        claim(store, noon() + LEASE).await.is_none(),
        "the lease was extended"
    );
    let kept = claim(store, later + LEASE).await.unwrap();
    assert_eq!((kept.expired_leases, kept.items.len()), (1, 2));
    assert!(kept.lease.token > lost.lease.token);
    assert!(
        !store
            .extend_lease(&lost.lease, later + LEASE)
            .await
            .unwrap()
    );
    assert!(!store.begin_item(&lost.lease, 0).await.unwrap());
    let outcome = scanned(0, new_scan("lease", 2));
    let stale = store.finish_items(&lost.lease, &[outcome], end()).await;
    assert_eq!(stale.unwrap(), None);
    assert_eq!(
        database
            .count("SELECT count(*) FROM images WHERE tenant = 'lease'")
            .await,
        0
    );

    // After a crash the worker runs the items one by one and marks each before it begins.
    assert!(store.begin_item(&kept.lease, 0).await.unwrap());
    let counted = all_items(store, batch.id).await;
    assert_eq!((counted[0].attempts, counted[1].attempts), (1, 0));
    let one = store
        .finish_items(&kept.lease, &[ok(0)], ChunkEnd::Keep)
        .await;
    assert_eq!(one.unwrap().unwrap().finished, 1);
    let counts = stored(store, &batch).await.counts;
    assert_eq!((counts.ok, counts.running, counts.queued), (1, 1, 0));
    // An item that is finished keeps its first result.
    let twice = store
        .finish_items(&kept.lease, &[failed(0, true), ok(1)], end())
        .await;
    let twice = twice.unwrap().unwrap();
    assert_eq!((twice.finished, twice.is_batch_done), (1, true));
    let attempts: Vec<_> = all_items(store, batch.id)
        .await
        .iter()
        .map(|item| item.attempts)
        .collect();
    assert_eq!(attempts, [1, 1]);
}

pub async fn retry_later(batches: &Store) {
    let batch = submit(batches, new_batch("retry later", 2), 2).await;
    let chunk = claim(batches, noon()).await.unwrap();
    let retry = ItemOutcome::Retry {
        position: 1,
        code: "url_failed".into(),
        detail: "the server did not answer".into(),
    };
    let retry_at = noon() + Duration::seconds(5);
    let end = ChunkEnd::Return {
        now: noon(),
        retry_at,
    };
    let finished = batches
        .finish_items(&chunk.lease, &[ok(0), retry], end)
        .await;
    let finished = finished.unwrap().unwrap();
    assert_eq!((finished.finished, finished.is_batch_done), (1, false));
    let counts = stored(batches, &batch).await.counts;
    assert_eq!((counts.ok, counts.running, counts.queued), (1, 0, 1));
    assert!(claim(batches, noon()).await.is_none());
    let again = claim(batches, retry_at).await.unwrap();
    assert_eq!(
        (again.expired_leases, again.items.len()),
        (0, 1),
        "the lease did not expire"
    );
    assert_eq!((again.items[0].position, again.items[0].attempts), (1, 1));
    assert!(finish(batches, &again).await);
    let item = &all_items(batches, batch.id).await[1];
    assert_eq!(
        (item.state, item.attempts, &item.error),
        (ItemState::Ok, 2, &None)
    );
}

/// A scan that was deleted after the worker found it is not a result.
pub async fn find_a_cached_scan(store: &Store) {
    let scan = new_scan("cached", 3);
    let saved = store.save_scan(scan.clone()).await.unwrap();
    let batch = submit(store, new_batch("cached", 2), 2).await;
    let chunk = claim(store, noon()).await.unwrap();
    let cached = |position, id| ItemOutcome::Ok {
        position,
        scan: Some(ScanOutcome::Cached(id)),
        result: None,
        is_copy: false,
    };
    let outcomes = [cached(0, scan.id), cached(1, Uuid::now_v7())];
    let finished = store.finish_items(&chunk.lease, &outcomes, end()).await;
    assert_eq!(finished.unwrap().unwrap().finished, 1);
    let listed = all_items(store, batch.id).await;
    assert!(listed[0].cached && listed[0].result.scan_id == Some(scan.id));
    assert_eq!(listed[1].state, ItemState::Queued);
    // The result of a finished item is erased with its image.
    let image = ErasureTarget::Image(saved.image_id());
    erase(store, "cached", image).await.unwrap();
    let listed = all_items(store, batch.id).await;
    assert_eq!(
        (listed[0].state, listed[0].result.scan_id),
        (ItemState::Ok, None)
    );
    let chunk = claim(store, noon()).await.unwrap();
    assert!(finish(store, &chunk).await);
}
