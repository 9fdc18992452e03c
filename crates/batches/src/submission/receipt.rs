//! The response to a submission.

use facescan_store::BatchState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::entry::EntryError;

/// The maximum number of refused entries that a response lists.
const MAX_LISTED: usize = 1000;

/// The response to a submission.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = BatchReceipt)]
pub struct Receipt {
    /// The id of the batch.
    pub id: Uuid,
    /// The state of the batch.
    #[schema(example = "queued")]
    pub state: String,
    /// The number of items that were added.
    pub accepted: u64,
    /// The number of entries whose id the batch already had. They were not added.
    pub duplicates: u64,
    /// The entries that were refused, at most 1000.
    pub refused: Vec<RefusedEntry>,
    /// The number of entries that were refused.
    pub refused_total: u64,
    /// The secret of the batch's own webhook. A request that continues an interrupted one does not get it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_secret: Option<String>,
    /// The number of entries so far.
    #[serde(skip)]
    pub(super) read: u64,
}

/// An entry that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RefusedEntry {
    /// The index of the entry in the request, from 0.
    pub index: u64,
    /// The caller's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The reason.
    pub error: RefusalReason,
}

/// Why an entry was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RefusalReason {
    /// The stable code.
    #[schema(example = "invalid_body")]
    pub code: String,
    /// What is wrong and what to do.
    pub detail: String,
}

impl Receipt {
    pub(super) fn new(id: Uuid) -> Self {
        Self {
            id,
            state: BatchState::Open.name().to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn refuse(&mut self, index: u64, id: Option<String>, error: &EntryError) {
        self.refused_total += 1;
        if self.refused.len() < MAX_LISTED {
            self.refused.push(RefusedEntry {
                index,
                id,
                error: RefusalReason {
                    code: error.code().to_owned(),
                    detail: error.to_string(),
                },
            });
        }
    }

    /// Adds what an interrupted request had written: `accepted` items of its first `read` entries.
    pub(super) fn add_before(&mut self, accepted: u64, read: u64) {
        let refused = self.refused.iter().filter(|entry| entry.index < read);
        let refused = refused.count() as u64;
        self.accepted += accepted;
        self.duplicates += read.saturating_sub(accepted + refused);
    }

    pub(super) fn in_state(self, state: BatchState) -> Self {
        Self {
            state: state.name().to_owned(),
            ..self
        }
    }
}
