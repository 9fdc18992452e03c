//! Durable batches: one scenario that runs on both databases.

use std::sync::Arc;

use facescan_store::{
    Batch, BatchCounts, BatchFilter, BatchPage, BatchState, BatchStore, ChunkEnd, ClaimRequest,
    CreatedBatch, Item, ItemFilter, ItemOutcome, ItemPage, ItemState, LeasedChunk, NewBatch,
    NewItem, NewScan, ScanOutcome, Stores,
};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::fixtures::{face_at, new_scan, noon};
use crate::support::database::Database;

const MODELS: [u8; 32] = [1; 32];
const LEASE: Duration = Duration::seconds(30);

/// Runs every step. Each step has its own tenant, and leaves no chunk that another step could claim.
pub async fn scenario(database: &Database) {
    let stores = database.open_all().await;
    let batches = &stores.batches;
    create_once(batches).await;
    add_each_id_once(batches).await;
    finish_a_batch(&stores).await;
    lose_a_lease(&stores, database).await;
    find_a_cached_scan(&stores).await;
    retry_later(batches).await;
    take_turns(batches).await;
    leave_other_models_alone(batches).await;
    cancel_between_chunks(batches).await;
    retry_failed_items(batches).await;
    keep_tenants_apart(batches).await;
    delete_with_objects(batches, database).await;
    claim_concurrently(batches).await;
}

fn new_batch(tenant: &str, chunk_size: u32) -> NewBatch {
    NewBatch {
        id: Uuid::now_v7(),
        tenant: tenant.into(),
        name: Some("crawl".into()),
        operation: "embed".into(),
        options: json!({"min_score": 0.5}),
        models: json!({"face_detection": "yunet"}),
        models_key: MODELS,
        priority: "bulk".into(),
        idempotency_key: None,
        chunk_size,
        created_at: noon(),
        expires_at: Some(noon() + Duration::days(7)),
    }
}

fn items(tenant: &str, count: usize) -> Vec<NewItem> {
    (0..count)
        .map(|index| NewItem {
            id: Some(format!("item {index}")),
            payload: Some(format!("{tenant}/{index}")),
            metadata: Some(json!({"page": index})),
            ..NewItem::default()
        })
        .collect()
}

/// Creates a batch with items that is closed.
async fn submit(batches: &Arc<dyn BatchStore>, batch: NewBatch, count: usize) -> Batch {
    let id = batch.id;
    batches.create_batch(&batch).await.unwrap();
    let items = items(&batch.tenant, count);
    let added = batches.add_items(id, &items, count as u64, noon());
    assert_eq!(added.await.unwrap().unwrap().accepted, count as u64);
    let completed = batches.complete_request(id, [7; 32], false, noon());
    completed.await.unwrap().unwrap()
}

fn claim_at(now: OffsetDateTime) -> ClaimRequest {
    ClaimRequest {
        owner: "worker 1".into(),
        models_keys: vec![[9; 32], MODELS],
        now,
        until: now + LEASE,
    }
}

async fn claim(batches: &Arc<dyn BatchStore>, now: OffsetDateTime) -> Option<LeasedChunk> {
    batches.claim_chunk(&claim_at(now)).await.unwrap()
}

fn ok(position: u64) -> ItemOutcome {
    ItemOutcome::Ok {
        position,
        scan: None,
        output: None,
        result: Some(json!({"faces": position})),
    }
}

fn failed(position: u64, is_dead: bool) -> ItemOutcome {
    ItemOutcome::Failed {
        position,
        is_dead,
        code: "image_corrupt".into(),
        detail: "the file is damaged".into(),
    }
}

fn end() -> ChunkEnd {
    ChunkEnd::Return {
        now: noon(),
        retry_at: noon(),
    }
}

/// Finishes all items of a chunk.
async fn finish(batches: &Arc<dyn BatchStore>, chunk: &LeasedChunk) -> bool {
    let outcomes: Vec<_> = chunk.items.iter().map(|item| ok(item.position)).collect();
    let finished = batches.finish_items(&chunk.lease, &outcomes, end());
    finished.await.unwrap().unwrap().is_batch_done
}

async fn all_items(batches: &Arc<dyn BatchStore>, batch: Uuid) -> Vec<Item> {
    let page = ItemPage {
        after: None,
        limit: 100,
    };
    let listed = batches.list_items(batch, ItemFilter::default(), page);
    listed.await.unwrap()
}

async fn create_once(batches: &Arc<dyn BatchStore>) {
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
    let closed = batches.complete_request(created.id, [3; 32], false, noon());
    let closed = closed.await.unwrap().unwrap();
    assert_eq!(closed.state, BatchState::Done);
    assert_eq!(closed.request_digest, Some([3; 32]));
}

async fn add_each_id_once(batches: &Arc<dyn BatchStore>) {
    let batch = new_batch("add", 4);
    batches.create_batch(&batch).await.unwrap();
    let added = batches
        .add_items(batch.id, &items("add", 6), 7, noon())
        .await;
    let added = added.unwrap().unwrap();
    assert_eq!((added.accepted, added.duplicates), (6, 0));
    let mut more = items("add", 8);
    more.push(NewItem::default());
    more.push(more[0].clone());
    let added = batches.add_items(batch.id, &more, 10, noon()).await;
    let added = added.unwrap().unwrap();
    assert_eq!((added.accepted, added.duplicates), (3, 7));
    let stored = batches.batch("add", batch.id).await.unwrap().unwrap();
    assert_eq!((stored.accepted, stored.submitted), (9, 17));
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
    let late = batches
        .add_items(batch.id, &items("add", 1), 1, noon())
        .await;
    assert_eq!(late.unwrap(), None, "the batch is closed");
}

async fn finish_a_batch(stores: &Stores) {
    let batches = &stores.batches;
    let batch = submit(batches, new_batch("finish", 3), 5).await;
    assert_eq!(batch.state, BatchState::Queued);
    let first = claim(batches, noon()).await.unwrap();
    assert_eq!(
        (first.tenant.as_str(), first.operation.as_str()),
        ("finish", "embed")
    );
    assert_eq!((first.expired_leases, first.items.len()), (0, 3));
    assert_eq!(first.items[1].payload.as_deref(), Some("finish/1"));
    let running = batches.batch("finish", batch.id).await.unwrap().unwrap();
    assert_eq!(running.state, BatchState::Running);
    assert_eq!((running.counts.running, running.counts.queued), (3, 2));
    let filter = ItemFilter {
        state: Some(ItemState::Running),
    };
    let page = ItemPage {
        after: Some(0),
        limit: 10,
    };
    let listed = batches.list_items(batch.id, filter, page).await.unwrap();
    assert_eq!(
        listed.iter().map(|item| item.position).collect::<Vec<_>>(),
        [1, 2]
    );

    let mut scan = new_scan("finish", 1);
    scan.faces = vec![face_at(1.0)];
    let again = NewScan {
        id: Uuid::now_v7(),
        faces: vec![face_at(2.0)],
        ..scan.clone()
    };
    let outcomes = [
        ItemOutcome::Ok {
            position: 0,
            scan: Some(ScanOutcome::New(Box::new(scan.clone()))),
            output: None,
            result: None,
        },
        failed(1, false),
        ItemOutcome::Ok {
            position: 2,
            // The same image again: the first scan is kept.
            scan: Some(ScanOutcome::New(Box::new(again))),
            output: Some("output".into()),
            result: None,
        },
    ];
    let done = batches
        .finish_items(&first.lease, &outcomes, end())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((done.finished, done.is_batch_done), (3, false));
    let second = claim(batches, noon()).await.unwrap();
    assert!(finish(batches, &second).await, "the batch is done");
    assert!(claim(batches, noon()).await.is_none());

    let done = batches.batch("finish", batch.id).await.unwrap().unwrap();
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
    let listed = all_items(batches, batch.id).await;
    assert_eq!(listed[0].result.scan_id, Some(scan.id));
    assert_eq!(listed[1].state, ItemState::Error);
    assert_eq!(
        listed[1].error,
        Some(("image_corrupt".into(), "the file is damaged".into()))
    );
    assert!(listed[2].cached && listed[2].result.output.as_deref() == Some("output"));
    assert_eq!(listed[3].result.result, Some(json!({"faces": 3})));
    assert_eq!(listed[3].metadata, Some(json!({"page": 3})));
    assert!(listed.iter().all(|item| item.attempts == 1));
    let image = super::find(&stores.scans, &scan).await.unwrap();
    assert_eq!(image.faces.len(), 1);
}

/// A worker that lost its lease writes nothing.
async fn lose_a_lease(stores: &Stores, database: &Database) {
    let batches = &stores.batches;
    let batch = submit(batches, new_batch("lease", 2), 2).await;
    let lost = claim(batches, noon()).await.unwrap();
    let later = noon() + LEASE / 2;
    assert!(
        batches
            .extend_lease(&lost.lease, later + LEASE)
            .await
            .unwrap()
    );
    assert!(
        claim(batches, noon() + LEASE).await.is_none(),
        "the lease was extended"
    );
    let kept = claim(batches, later + LEASE).await.unwrap();
    assert_eq!((kept.expired_leases, kept.items.len()), (1, 2));
    assert!(kept.lease.token > lost.lease.token);
    assert!(
        !batches
            .extend_lease(&lost.lease, later + LEASE)
            .await
            .unwrap()
    );
    assert!(!batches.begin_item(&lost.lease, 0).await.unwrap());
    let outcome = ItemOutcome::Ok {
        position: 0,
        scan: Some(ScanOutcome::New(Box::new(new_scan("lease", 2)))),
        output: None,
        result: None,
    };
    let stale = batches.finish_items(&lost.lease, &[outcome], end()).await;
    assert_eq!(stale.unwrap(), None);
    assert_eq!(
        database
            .count("SELECT count(*) FROM images WHERE tenant = 'lease'")
            .await,
        0
    );

    // After a crash the worker runs the items one by one and marks each before it begins.
    assert!(batches.begin_item(&kept.lease, 0).await.unwrap());
    let counted = all_items(batches, batch.id).await;
    assert_eq!((counted[0].attempts, counted[1].attempts), (1, 0));
    let one = batches
        .finish_items(&kept.lease, &[ok(0)], ChunkEnd::Keep)
        .await;
    assert_eq!(one.unwrap().unwrap().finished, 1);
    let counts = batches
        .batch("lease", batch.id)
        .await
        .unwrap()
        .unwrap()
        .counts;
    assert_eq!((counts.ok, counts.running, counts.queued), (1, 1, 0));
    // An item that is finished keeps its first result.
    let twice = batches
        .finish_items(&kept.lease, &[failed(0, true), ok(1)], end())
        .await;
    let twice = twice.unwrap().unwrap();
    assert_eq!((twice.finished, twice.is_batch_done), (1, true));
    let attempts: Vec<_> = all_items(batches, batch.id)
        .await
        .iter()
        .map(|item| item.attempts)
        .collect();
    assert_eq!(attempts, [1, 1]);
}

async fn retry_later(batches: &Arc<dyn BatchStore>) {
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
    let counts = batches
        .batch("retry later", batch.id)
        .await
        .unwrap()
        .unwrap()
        .counts;
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
async fn find_a_cached_scan(stores: &Stores) {
    let batches = &stores.batches;
    let scan = new_scan("cached", 3);
    let saved = stores.scans.save_scan(scan.clone()).await.unwrap();
    let batch = submit(batches, new_batch("cached", 2), 2).await;
    let chunk = claim(batches, noon()).await.unwrap();
    let cached = |position, id| ItemOutcome::Ok {
        position,
        scan: Some(ScanOutcome::Cached(id)),
        output: None,
        result: None,
    };
    let outcomes = [cached(0, scan.id), cached(1, Uuid::now_v7())];
    let finished = batches.finish_items(&chunk.lease, &outcomes, end()).await;
    assert_eq!(finished.unwrap().unwrap().finished, 1);
    let listed = all_items(batches, batch.id).await;
    assert!(listed[0].cached && listed[0].result.scan_id == Some(scan.id));
    assert_eq!(listed[1].state, ItemState::Queued);
    // The result of a finished item is erased with its image.
    stores
        .scans
        .delete_image("cached", saved.image_id())
        .await
        .unwrap();
    let listed = all_items(batches, batch.id).await;
    assert_eq!(
        (listed[0].state, listed[0].result.scan_id),
        (ItemState::Ok, None)
    );
    let chunk = claim(batches, noon()).await.unwrap();
    assert!(finish(batches, &chunk).await);
}

/// Tenants take turns, however much each has queued, and a tenant that comes later does not wait for the others.
async fn take_turns(batches: &Arc<dyn BatchStore>) {
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

async fn leave_other_models_alone(batches: &Arc<dyn BatchStore>) {
    let batch = NewBatch {
        models_key: [2; 32],
        ..new_batch("models", 2)
    };
    submit(batches, batch, 1).await;
    assert!(claim(batches, noon()).await.is_none());
    let mut request = claim_at(noon());
    request.models_keys = vec![[2; 32]];
    let chunk = batches.claim_chunk(&request).await.unwrap().unwrap();
    finish(batches, &chunk).await;
    request.models_keys.clear();
    assert!(batches.claim_chunk(&request).await.unwrap().is_none());
}

async fn cancel_between_chunks(batches: &Arc<dyn BatchStore>) {
    let batch = submit(batches, new_batch("cancel", 2), 6).await;
    let done = claim(batches, noon()).await.unwrap();
    finish(batches, &done).await;
    let running = claim(batches, noon()).await.unwrap();
    let cancelled = batches
        .cancel_batch("cancel", batch.id, noon())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (cancelled.cancelled, cancelled.batch.state),
        (2, BatchState::Cancelled)
    );
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
    let stored = batches.batch("cancel", batch.id).await.unwrap().unwrap();
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

async fn retry_failed_items(batches: &Arc<dyn BatchStore>) {
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
    let queued = batches.batch("retry", batch.id).await.unwrap().unwrap();
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
    let done = batches.batch("retry", batch.id).await.unwrap().unwrap();
    assert_eq!((done.state, done.counts.ok), (BatchState::Done, 6));
}

async fn keep_tenants_apart(batches: &Arc<dyn BatchStore>) {
    let mine = submit(batches, new_batch("mine", 2), 1).await;
    let theirs = "theirs";
    assert_eq!(batches.batch(theirs, mine.id).await.unwrap(), None);
    assert_eq!(
        batches.close_batch(theirs, mine.id, noon()).await.unwrap(),
        None
    );
    assert_eq!(
        batches.cancel_batch(theirs, mine.id, noon()).await.unwrap(),
        None
    );
    assert_eq!(
        batches.retry_items(theirs, mine.id, noon()).await.unwrap(),
        None
    );
    assert_eq!(batches.delete_batch(theirs, mine.id).await.unwrap(), None);
    let page = BatchPage {
        after: None,
        limit: 10,
    };
    let filter = BatchFilter::default();
    assert!(
        batches
            .list_batches(theirs, &filter, page)
            .await
            .unwrap()
            .is_empty()
    );
    let other = submit(
        batches,
        NewBatch {
            name: None,
            ..new_batch("mine", 2)
        },
        0,
    )
    .await;
    let listed = async |filter: BatchFilter, page| {
        let listed = batches.list_batches("mine", &filter, page).await.unwrap();
        listed.into_iter().map(|batch| batch.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(filter.clone(), page).await, [other.id, mine.id]);
    let after = BatchPage {
        after: Some(other.id),
        ..page
    };
    assert_eq!(listed(filter, after).await, [mine.id]);
    let named = BatchFilter {
        name: Some("crawl".into()),
        ..BatchFilter::default()
    };
    assert_eq!(listed(named, page).await, [mine.id]);
    let done = BatchFilter {
        state: Some(BatchState::Done),
        ..BatchFilter::default()
    };
    assert_eq!(listed(done, page).await, [other.id]);
    let chunk = claim(batches, noon()).await.unwrap();
    finish(batches, &chunk).await;
}

async fn delete_with_objects(batches: &Arc<dyn BatchStore>, database: &Database) {
    let first = submit(batches, new_batch("delete", 2), 2).await;
    let second = submit(batches, new_batch("delete", 2), 1).await;
    let deleted = batches
        .delete_batch("delete", first.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (deleted.items, deleted.objects),
        (2, vec!["delete/1".to_owned()]),
        "the other batch has the first one"
    );
    let deleted = batches
        .delete_batch("delete", second.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(deleted.objects, ["delete/0"]);
    for table in ["batch_items", "batch_chunks"] {
        let query = format!(
            "SELECT count(*) FROM {table} t WHERE NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = t.batch_id)"
        );
        assert_eq!(database.count(&query).await, 0);
    }
}

async fn claim_concurrently(batches: &Arc<dyn BatchStore>) {
    const CHUNKS: usize = 40;
    let batch = submit(batches, new_batch("together", 1), CHUNKS).await;
    let workers = (0..8).map(|_| {
        let batches = Arc::clone(batches);
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
    let done = batches.batch("together", batch.id).await.unwrap().unwrap();
    assert_eq!(
        (done.state, done.counts.ok),
        (BatchState::Done, CHUNKS as u64)
    );
    let depth = batches.queue_depth(noon()).await.unwrap();
    assert_eq!(depth, facescan_store::QueueDepth::default());
}
