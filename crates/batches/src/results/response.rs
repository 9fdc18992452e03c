//! Converts stored items to responses.

use std::collections::HashMap;

use facescan_config::EmbeddingFormat;
use facescan_pipeline::{
    core::scan::Scan,
    results::{ImageEmbeddingResult, ScanResult},
};
use facescan_recognition::collections::candidates::FoundCandidates;
use facescan_store::{CachedScan, Item, JsonText};
use serde::{Deserialize, Serialize, Serializer, ser::Error as _};
use serde_transcode::transcode;
use utoipa::ToSchema;
use uuid::Uuid;

use super::files::FilesResult;
use crate::operation::BatchPlan;

/// How the results of a batch are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultFormat {
    /// The format of vectors. `None` means that of the batch's options.
    pub embedding_format: Option<EmbeddingFormat>,
    /// Whether results have their vectors.
    pub without_vectors: bool,
    /// Whether results have the images that the operation made.
    pub without_data: bool,
}

/// One item of a batch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchItem)]
pub struct ItemResponse {
    /// The index in the batch, from 0.
    pub index: u64,
    /// The caller's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `queued`, `running`, `ok`, `error`, `dead` or `cancelled`.
    #[schema(example = "ok")]
    pub state: &'static str,
    /// The number of attempts so far.
    pub attempts: u32,
    /// Whether the result was stored before, or was made for an equal image of the batch.
    pub cached: bool,
    /// The result, as the operation's own response has it. Absent if there is none, or if it was erased.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "with_values_of_json"
    )]
    #[schema(value_type = Option<Value>)]
    pub result: Option<ResultResponse>,
    /// The reason of an error. A queued item has the reason why its last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ItemErrorResponse>,
    /// The caller's own data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub metadata: Option<JsonText>,
}

/// The error of an item.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = BatchItemError)]
pub struct ItemErrorResponse {
    /// The stable code.
    #[schema(example = "image_truncated")]
    pub code: String,
    /// What is wrong and what to do.
    pub detail: String,
}

/// One page of items.
#[derive(Debug)]
pub struct ItemsPage {
    /// The items, in order.
    pub items: Vec<ItemResponse>,
    /// The index to pass as `after` for the next page. `None` if this is the last page.
    pub next: Option<u64>,
}

/// The result of an item. It is written without a tree of JSON, which would take many times its bytes.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ResultResponse {
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
fn with_values_of_json<T: Serialize, S: Serializer>(
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

/// The scans of a page. The last item that has a scan takes it.
pub(super) struct Scans {
    pub found: HashMap<Uuid, CachedScan>,
    pub uses: HashMap<Uuid, usize>,
}

impl Scans {
    fn remove(&mut self, id: &Uuid) -> Option<CachedScan> {
        let left = self.uses.get_mut(id)?;
        *left -= 1;
        match *left {
            0 => self.found.remove(id),
            _ => self.found.get(id).cloned(),
        }
    }
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
    /// Converts the rows to responses. This is CPU work for vectors.
    pub fn into_page(mut self) -> ItemsPage {
        let items = std::mem::take(&mut self.items).into_iter();
        let items = items.map(|(item, stored)| {
            let result = stored.and_then(|stored| self.result(stored, item.cached));
            response(item, result)
        });
        ItemsPage {
            items: items.collect(),
            next: self.next,
        }
    }

    fn result(&mut self, stored: StoredResult, cached: bool) -> Option<ResultResponse> {
        match stored {
            StoredResult::Scan(id) => {
                let found = self.scans.remove(&id)?;
                scan_result(found, cached, &self.plan, self.format)
            }
            StoredResult::Search(found) => Some(ResultResponse::Search(found)),
            StoredResult::Files(files) => Some(ResultResponse::Files(files)),
        }
    }
}

fn scan_result(
    found: CachedScan,
    cached: bool,
    plan: &BatchPlan,
    format: ResultFormat,
) -> Option<ResultResponse> {
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
            Some(ResultResponse::Scan(Box::new(result)))
        }
        BatchPlan::ImageEmbedding(plan) => {
            let mut plan = plan.as_ref().clone();
            plan.embedding_format = format.embedding_format.unwrap_or(plan.embedding_format);
            let result = ImageEmbeddingResult::new(scan, &plan);
            Some(ResultResponse::Image(Box::new(result)))
        }
        BatchPlan::Enhance(_) | BatchPlan::Process(_) | BatchPlan::Search(_) => None,
    }
}

fn response(item: Item, result: Option<ResultResponse>) -> ItemResponse {
    let error = item.error;
    ItemResponse {
        index: item.position,
        id: item.id,
        state: item.state.name(),
        attempts: item.attempts,
        cached: item.cached,
        result,
        error: error.map(|(code, detail)| ItemErrorResponse { code, detail }),
        metadata: item.metadata,
    }
}
