//! Converts stored items to answers.

use facescan_pipeline::{
    core::scan::Scan,
    results::{ScanResult, embed_image::ImageEmbeddingResult},
};
use facescan_recognition::collections::candidates::FoundCandidates;
use facescan_store::{CachedScan, Item};
use serde::{Serialize, Serializer, ser::Error as _};
use serde_transcode::transcode;
use uuid::Uuid;

use super::{FilesResult, ItemAnswer, ItemErrorAnswer, ItemsPage, ResultFormat, Scans};
use crate::operation::BatchPlan;

/// The result of an item. It is written without a tree of JSON, which would take many times its bytes.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ResultAnswer {
    /// Faces.
    Scan(Box<ScanResult>),
    /// The vector of a whole image.
    Image(Box<ImageEmbeddingResult>),
    /// Candidates.
    Search(Box<FoundCandidates>),
    /// What an operation says about the files that it made, with the files.
    Files(FilesResult),
}

/// Writes a value as what its JSON has. Otherwise msgpack would have ids as bytes and numbers with other digits.
pub(super) fn with_values_of_json<T: Serialize, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        return value.serialize(serializer);
    }
    let json = serde_json::to_vec(value).map_err(S::Error::custom)?;
    transcode(&mut serde_json::Deserializer::from_slice(&json), serializer)
}

/// The result of an item as it was loaded.
pub(super) enum StoredResult {
    /// The scan with this id.
    Scan(Uuid),
    Search(Box<FoundCandidates>),
    Files(FilesResult),
}

/// The rows of a page of items.
pub struct StoredItems {
    pub(super) items: Vec<(Item, Option<StoredResult>)>,
    pub(super) scans: Scans,
    pub(super) plan: BatchPlan,
    pub(super) format: ResultFormat,
    pub(super) next: Option<u64>,
}

impl StoredItems {
    /// Converts the rows to answers. This is CPU work for vectors.
    pub fn into_page(mut self) -> ItemsPage {
        let items = std::mem::take(&mut self.items).into_iter();
        let items = items.map(|(item, stored)| {
            let result = stored.and_then(|stored| self.result(stored, item.cached));
            answer(item, result)
        });
        ItemsPage {
            items: items.collect(),
            next: self.next,
        }
    }

    fn result(&mut self, stored: StoredResult, cached: bool) -> Option<ResultAnswer> {
        match stored {
            StoredResult::Scan(id) => {
                let found = self.scans.remove(&id)?;
                scan_result(found, cached, &self.plan, self.format)
            }
            StoredResult::Search(found) => Some(ResultAnswer::Search(found)),
            StoredResult::Files(files) => Some(ResultAnswer::Files(files)),
        }
    }
}

fn scan_result(
    found: CachedScan,
    cached: bool,
    plan: &BatchPlan,
    format: ResultFormat,
) -> Option<ResultAnswer> {
    // `None` if another version wrote other fields.
    let mut scan = Scan::from_stored(found)?.result;
    scan.cached = cached;
    if format.without_vectors {
        scan.embedding = None;
        for face in &mut scan.faces {
            face.embedding = None;
        }
    }
    match plan {
        BatchPlan::Scan(plan) => {
            let mut plan = plan.as_ref().clone();
            plan.embedding_format = format.embedding_format.unwrap_or(plan.embedding_format);
            let result = ScanResult::new(scan, &plan);
            Some(ResultAnswer::Scan(Box::new(result)))
        }
        BatchPlan::ImageEmbedding(plan) => {
            let mut plan = plan.as_ref().clone();
            plan.embedding_format = format.embedding_format.unwrap_or(plan.embedding_format);
            let result = ImageEmbeddingResult::new(scan, &plan);
            Some(ResultAnswer::Image(Box::new(result)))
        }
        BatchPlan::Enhance(_) | BatchPlan::Process(_) | BatchPlan::Search(_) => None,
    }
}

fn answer(item: Item, result: Option<ResultAnswer>) -> ItemAnswer {
    let error = item.error;
    ItemAnswer {
        index: item.position,
        id: item.id,
        state: item.state.name(),
        attempts: item.attempts,
        cached: item.cached,
        result,
        error: error.map(|(code, detail)| ItemErrorAnswer { code, detail }),
        metadata: item.metadata,
    }
}
