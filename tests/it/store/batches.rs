//! Durable batches: one scenario that runs on both databases.

mod delete;
mod leases;
mod manage;
mod pages;
mod submit;
mod turns;

use facescan_store::{
    AddedItems, Batch, ChunkEnd, ClaimRequest, CompleteRequest, Item, ItemFilter, ItemOutcome,
    ItemPage, LeasedChunk, NewBatch, NewItem, NewItems, NewScan, ScanOutcome, Store,
};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::fixtures::noon;
use crate::support::database::Database;

const MODELS: [u8; 32] = [1; 32];
const LEASE: Duration = Duration::seconds(30);

/// Runs every step. Each step has its own tenant, and leaves no chunk that another step could claim.
pub async fn scenario(database: Database) {
    let store = &database.open().await;
    submit::add_each_id_once(store).await;
    leases::finish_a_batch(store).await;
    leases::lose_a_lease(store, &database).await;
    leases::find_a_cached_scan(store).await;
    leases::retry_later(store).await;
    pages::end_a_page_of_items_by_bytes(store).await;
    pages::leave_receipts_out_of_lists(store).await;
    turns::take_turns(store).await;
    turns::leave_other_models_alone(store).await;
    manage::cancel_between_chunks(store).await;
    manage::retry_failed_items(store).await;
    manage::list_by_name_and_state(store).await;
    delete::delete_with_own_scans(store, &database).await;
    delete::expire_and_sweep(store, &database).await;
    delete::end_chunks_of_dead_workers(store).await;
    turns::claim_concurrently(store).await;
}

pub(crate) fn new_batch(tenant: &str, chunk_size: u32) -> NewBatch {
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
        traceparent: None,
        key_id: Some("key".into()),
        webhook: None,
        expires_at: Some(noon() + Duration::days(7)),
    }
}

fn items(count: usize) -> Vec<NewItem> {
    (0..count)
        .map(|index| NewItem {
            id: Some(format!("item {index}")),
            payload: Some([index as u8; 32]),
            metadata: serde_json::from_value(json!({"page": index})).unwrap(),
            ..NewItem::default()
        })
        .collect()
}

/// Creates a batch with items that is closed.
pub(super) async fn submit(batches: &Store, batch: NewBatch, count: usize) -> Batch {
    let id = batch.id;
    batches.create_batch(&batch).await.unwrap();
    let added = add(batches, id, &items(count), None).await.unwrap();
    assert_eq!(added.accepted, count as u64);
    let completed = batches.complete_request(CompleteRequest {
        batch: id,
        digest: [7; 32],
        receipt: json!({"accepted": 1}),
        stays_open: false,
        now: noon(),
    });
    completed.await.unwrap().unwrap()
}

/// Adds items that one request has read.
async fn add(
    batches: &Store,
    batch: Uuid,
    items: &[NewItem],
    read_before: Option<u64>,
) -> Option<AddedItems> {
    let added = batches.add_items(NewItems {
        batch,
        items,
        read: items.len() as u64,
        read_before,
        now: noon(),
    });
    added.await.unwrap()
}

fn claim_at(now: OffsetDateTime) -> ClaimRequest {
    ClaimRequest {
        owner: "worker 1".into(),
        models_keys: vec![[9; 32], MODELS],
        except: Vec::new(),
        now,
        until: now + LEASE,
    }
}

pub(super) async fn claim(batches: &Store, now: OffsetDateTime) -> Option<LeasedChunk> {
    batches.claim_chunk(&claim_at(now)).await.unwrap()
}

fn ok(position: u64) -> ItemOutcome {
    ItemOutcome::Ok {
        position,
        scan: None,
        result: Some(json!({"faces": position})),
        is_copy: false,
    }
}

/// An item whose result is a new scan.
pub(super) fn scanned(position: u64, scan: NewScan) -> ItemOutcome {
    ItemOutcome::Ok {
        position,
        scan: Some(ScanOutcome::New(Box::new(scan))),
        result: None,
        is_copy: false,
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

pub(super) fn end() -> ChunkEnd {
    ChunkEnd::Return {
        now: noon(),
        retry_at: noon(),
    }
}

/// Finishes all items of a chunk.
async fn finish(batches: &Store, chunk: &LeasedChunk) -> bool {
    let outcomes: Vec<_> = chunk.items.iter().map(|item| ok(item.position)).collect();
    let finished = batches.finish_items(&chunk.lease, &outcomes, end());
    finished.await.unwrap().unwrap().is_batch_done
}

/// Returns a batch as it is now.
async fn stored(batches: &Store, batch: &Batch) -> Batch {
    let stored = batches.batch(&batch.tenant, batch.id).await;
    stored.unwrap().unwrap()
}

async fn all_items(batches: &Store, batch: Uuid) -> Vec<Item> {
    let page = ItemPage {
        after: None,
        limit: 100,
        max_bytes: u64::MAX,
    };
    let listed = batches.list_items(batch, ItemFilter::default(), page);
    let listed = listed.await.unwrap();
    assert!(!listed.has_more);
    listed.items
}
