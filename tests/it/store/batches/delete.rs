//! Deleting batches with what belongs to them.

use facescan_store::{BatchCounts, NewBatch, NewScan, Store};
use time::Duration;
use uuid::Uuid;

use super::{LEASE, claim, end, failed, finish, new_batch, ok, scanned, stored, submit};
use crate::store::fixtures::{face_at, find, new_scan, noon};
use crate::support::database::Database;

/// Finishes the only item of a batch with a scan.
async fn finish_with(batches: &Store, scan: &NewScan) {
    let chunk = claim(batches, noon()).await.unwrap();
    let outcome = scanned(0, scan.clone());
    let finished = batches.finish_items(&chunk.lease, &[outcome], end()).await;
    assert!(finished.unwrap().unwrap().is_batch_done);
}

/// A scan is deleted with the batch that made it, unless another batch or a request has it.
pub async fn delete_with_own_scans(store: &Store, database: &Database) {
    let scan = |number| NewScan {
        faces: vec![face_at(1.0)],
        ..new_scan("delete", number)
    };
    let (own, shared, asked) = (scan(1), scan(2), scan(3));
    let mut ids = Vec::new();
    for scan in [&own, &shared, &shared, &asked] {
        ids.push(submit(store, new_batch("delete", 2), 1).await.id);
        let again = NewScan {
            id: Uuid::now_v7(),
            ..scan.clone()
        };
        finish_with(store, &again).await;
    }
    let [own_batch, first_shared, second_shared, asked_batch] = ids[..] else {
        panic!("four batches were submitted");
    };
    let found = store
        .find_scan("delete", &asked.image.sha256, &asked.record.scan_key)
        .await;
    let found = found.unwrap().unwrap().scan;
    assert_eq!(found.batch_id, Some(asked_batch));
    store.keep_scan(found.id).await.unwrap();

    for (batch, kept) in [
        (own_batch, None),
        (first_shared, Some(&shared)),
        (asked_batch, Some(&asked)),
    ] {
        assert!(store.delete_batch("delete", batch).await.unwrap());
        assert_eq!(store.batch("delete", batch).await.unwrap(), None);
        assert!(!store.delete_batch("delete", batch).await.unwrap());
        let marked = store.deleted_batches(10).await.unwrap();
        assert_eq!(marked.iter().map(|key| key.id).collect::<Vec<_>>(), [batch]);
        store.purge_batch(batch, noon()).await.unwrap();
        if let Some(scan) = kept {
            assert!(find(store, scan).await.is_some());
        }
    }
    assert!(find(store, &own).await.is_none());
    let images = "SELECT count(*) FROM images WHERE tenant = 'delete'";
    assert_eq!(
        database.count(images).await,
        2,
        "an image without a scan is deleted too"
    );
    // The last batch that has the shared scan did not make it.
    assert!(store.delete_batch("delete", second_shared).await.unwrap());
    store.purge_batch(second_shared, noon()).await.unwrap();
    assert!(store.deleted_batches(10).await.unwrap().is_empty());
    for (table, rows) in [
        (
            "batch_items i JOIN batches b ON b.id = i.batch_id WHERE b.tenant = 'delete'",
            0,
        ),
        ("deleted_batches WHERE tenant = 'delete' AND ok = 1", 4),
        ("deleted_batches WHERE tenant = 'delete' AND scans = 1", 1),
    ] {
        assert_eq!(
            database
                .count(&format!("SELECT count(*) FROM {table}"))
                .await,
            rows,
            "{table}"
        );
    }
}

/// The results of an expired batch stay. Payloads of items with a result are not needed once the batch has ended.
pub async fn expire_and_sweep(store: &Store, database: &Database) {
    let batch = submit(store, new_batch("expire", 3), 3).await;
    let is_due = async || {
        let due = store.batches_with_due_payloads(100).await.unwrap();
        let batch = (batch.id, "expire");
        due.iter().any(|key| (key.id, key.tenant.as_str()) == batch)
    };
    assert!(!is_due().await);
    let chunk = claim(store, noon()).await.unwrap();
    let scan = new_scan("expire", 4);
    let outcomes = [scanned(0, scan.clone()), failed(1, true), ok(2)];
    store
        .finish_items(&chunk.lease, &outcomes, end())
        .await
        .unwrap();
    assert!(is_due().await);
    let first = store.finished_payloads(batch.id, None, 1).await.unwrap();
    assert_eq!(first, [[0; 32]]);
    let rest = store
        .finished_payloads(batch.id, Some(first[0]), 10)
        .await
        .unwrap();
    assert_eq!(rest, [[2; 32]], "the item that failed can be tried again");
    store.payloads_swept(batch.id).await.unwrap();
    assert!(!is_due().await);

    let other = NewBatch {
        expires_at: Some(noon() + Duration::days(9)),
        ..new_batch("expire", 3)
    };
    let other = submit(store, other, 0).await;
    let week = noon() + Duration::days(7);
    assert!(store.batch("expire", batch.id).await.unwrap().is_some());
    while store.expire_batches(week).await.unwrap() > 0 {}
    assert_eq!(store.batch("expire", batch.id).await.unwrap(), None);
    assert!(store.batch("expire", other.id).await.unwrap().is_some());
    for key in store.deleted_batches(1000).await.unwrap() {
        store.purge_batch(key.id, week).await.unwrap();
    }
    assert!(find(store, &scan).await.is_some());
    let expired = "SELECT count(*) FROM deleted_batches WHERE tenant = 'expire' AND deletion = 'expired' AND dead = 1";
    assert_eq!(database.count(expired).await, 1);
}

/// The chunk of a cancelled batch ends with its lease if its worker dies.
pub async fn end_chunks_of_dead_workers(batches: &Store) {
    let batch = submit(batches, new_batch("dead worker", 2), 2).await;
    let chunk = claim(batches, noon()).await.unwrap();
    batches
        .cancel_batch("dead worker", batch.id, noon())
        .await
        .unwrap();
    assert_eq!(
        batches.sweep_cancelled(noon()).await.unwrap(),
        0,
        "the lease runs"
    );
    assert_eq!(batches.sweep_cancelled(noon() + LEASE).await.unwrap(), 1);
    let counts = stored(batches, &batch).await.counts;
    let expected = BatchCounts {
        cancelled: 2,
        ..BatchCounts::default()
    };
    assert_eq!(counts, expected);
    let late = batches.finish_items(&chunk.lease, &[ok(0)], end()).await;
    assert_eq!(late.unwrap(), None);
    let again = submit(batches, new_batch("dead worker", 2), 1).await;
    let chunk = claim(batches, noon()).await.unwrap();
    assert_eq!(chunk.lease.batch, again.id);
    finish(batches, &chunk).await;
}
