//! The outcomes of items as values of their columns. New scans are saved on the way.

use std::collections::HashSet;

use sqlx::types::JsonValue;
use uuid::Uuid;

use super::records::{ItemOutcome, ScanOutcome};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::scans::{SavedScan, check_scan, save_scan};
use crate::values::{Many, Value};

crate::prepared::statements! {
    const STORED = "SELECT id FROM scans WHERE id IN (:ids)";
}

/// An outcome as values of the columns of an item.
pub(super) struct ItemValues<'a> {
    pub(super) position: u64,
    pub(super) state: &'static str,
    pub(super) cached: bool,
    scan_id: Option<Uuid>,
    result: &'a Option<JsonValue>,
    code: &'a dyn Value,
    detail: &'a dyn Value,
}

impl<'a> ItemValues<'a> {
    /// Returns the values of an item without a result.
    fn failed(
        position: u64,
        state: &'static str,
        (code, detail): (&'a String, &'a String),
    ) -> Self {
        Self {
            position,
            state,
            cached: false,
            scan_id: None,
            result: &None,
            code,
            detail,
        }
    }

    pub(super) fn values(&self) -> [&dyn Value; 7] {
        [
            &self.position,
            &self.state,
            &self.cached,
            &self.scan_id,
            self.result,
            self.code,
            self.detail,
        ]
    }
}

/// Saves the scan of an outcome and returns the values of its item. Returns `None` if the item waits, because its scan was
/// deleted in the meantime.
pub(super) async fn item_values<'a>(
    connection: &mut Connection<'_>,
    batch: Uuid,
    outcome: &'a ItemOutcome,
    stored: &HashSet<Uuid>,
) -> Result<Option<ItemValues<'a>>, StoreError> {
    Ok(match outcome {
        ItemOutcome::Ok {
            position,
            scan,
            result,
            is_copy,
        } => {
            let (scan_id, cached) = match scan {
                None => (None, false),
                Some(ScanOutcome::New(scan)) => {
                    check_scan(scan)?;
                    let saved = save_scan(connection, scan, Some(batch)).await?;
                    let is_kept = matches!(saved, SavedScan::Kept(_));
                    (Some(saved.scan_id(scan.id)), is_kept)
                }
                Some(ScanOutcome::Cached(id)) if stored.contains(id) => (Some(*id), true),
                Some(ScanOutcome::Cached(_)) => return Ok(None),
            };
            Some(ItemValues {
                position: *position,
                state: "ok",
                cached: cached || *is_copy,
                scan_id,
                result,
                code: &None::<String>,
                detail: &None::<String>,
            })
        }
        ItemOutcome::Failed {
            position,
            is_dead,
            code,
            detail,
        } => {
            let state = if *is_dead { "dead" } else { "error" };
            Some(ItemValues::failed(*position, state, (code, detail)))
        }
        ItemOutcome::Retry {
            position,
            code,
            detail,
        } => Some(ItemValues::failed(*position, "queued", (code, detail))),
    })
}

/// Returns the cached scans of some outcomes that are still stored.
pub(super) async fn stored_scans(
    connection: &mut Connection<'_>,
    outcomes: &[&ItemOutcome],
) -> Result<HashSet<Uuid>, StoreError> {
    const IDS_PER_QUERY: usize = 500;
    let cached = outcomes.iter().filter_map(|outcome| match outcome {
        ItemOutcome::Ok {
            scan: Some(ScanOutcome::Cached(id)),
            ..
        } => Some(*id),
        _ => None,
    });
    let ids: Vec<Uuid> = cached.collect::<HashSet<_>>().into_iter().collect();
    let mut stored = HashSet::with_capacity(ids.len());
    for ids in ids.chunks(IDS_PER_QUERY) {
        let ids = params!(ids = Many(ids));
        stored.extend(connection.fetch_all::<Uuid>(STORED, ids).await?);
    }
    Ok(stored)
}
