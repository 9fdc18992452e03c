//! The outcomes of items as values of their columns. New scans are saved on the way.

use std::collections::{HashMap, HashSet};

use sqlx::types::JsonValue;
use uuid::Uuid;

use super::records::{ItemOutcome, ScanOutcome};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::scans::{SavedScan, ScanToSave, check_scan, save_scans};
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

/// The scans that the outcomes refer to.
pub(super) struct OutcomeScans {
    /// The cached scans that are still stored.
    cached: HashSet<Uuid>,
    /// What became of the new scans, by their ids.
    saved: HashMap<Uuid, SavedScan>,
}

impl OutcomeScans {
    /// Saves the new scans of a batch, and looks for the cached ones.
    pub(super) async fn save(
        connection: &mut Connection<'_>,
        batch: Uuid,
        outcomes: &[ItemOutcome],
    ) -> Result<Self, StoreError> {
        let cached = stored_scans(connection, outcomes).await?;
        let new = outcomes.iter().filter_map(|outcome| match outcome {
            ItemOutcome::Ok {
                scan: Some(ScanOutcome::New(scan)),
                ..
            } => Some(ScanToSave {
                scan,
                batch: Some(batch),
            }),
            _ => None,
        });
        let new: Vec<ScanToSave<'_>> = new.collect();
        for new in &new {
            check_scan(new.scan)?;
        }
        let saved = save_scans(connection, &new).await?;
        let ids = new.iter().map(|new| new.scan.id);
        Ok(Self {
            cached,
            saved: ids.zip(saved).collect(),
        })
    }

    /// Returns the scan of an item, and whether it was stored before. Returns `None` if it was deleted in the meantime.
    fn find(&self, scan: &ScanOutcome) -> Option<(Uuid, bool)> {
        match scan {
            ScanOutcome::New(new) => {
                let saved = self.saved.get(&new.id)?;
                Some((saved.scan_id(new.id), matches!(saved, SavedScan::Kept(_))))
            }
            ScanOutcome::Cached(id) => self.cached.contains(id).then_some((*id, true)),
        }
    }
}

/// Returns the values of the item of an outcome. Returns `None` if the item waits, because its scan was deleted in the meantime.
pub(super) fn item_values<'a>(
    outcome: &'a ItemOutcome,
    scans: &OutcomeScans,
) -> Option<ItemValues<'a>> {
    Some(match outcome {
        ItemOutcome::Ok {
            position,
            scan,
            result,
            is_copy,
        } => {
            let scan = scan.as_ref().map(|scan| scans.find(scan));
            let (scan_id, is_cached) = match scan {
                None => (None, false),
                Some(found) => {
                    let (id, is_cached) = found?;
                    (Some(id), is_cached)
                }
            };
            ItemValues {
                position: *position,
                state: "ok",
                cached: is_cached || *is_copy,
                scan_id,
                result,
                code: &None::<String>,
                detail: &None::<String>,
            }
        }
        ItemOutcome::Failed {
            position,
            is_dead,
            code,
            detail,
        } => {
            let state = if *is_dead { "dead" } else { "error" };
            ItemValues::failed(*position, state, (code, detail))
        }
        ItemOutcome::Retry {
            position,
            code,
            detail,
        } => ItemValues::failed(*position, "queued", (code, detail)),
    })
}

/// Returns the cached scans of some outcomes that are still stored.
async fn stored_scans(
    connection: &mut Connection<'_>,
    outcomes: &[ItemOutcome],
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
