//! The results of a batch: its items, each with the answer of its operation.

use std::collections::HashMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_inference::pool::Stage;
use facescan_store::{
    Batch, CachedScan, CollectionKey, Item, ItemFilter, ItemPage, ItemState, JsonText,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Batches,
    error::BatchError,
    operation::BatchPlan,
    payloads::{ObjectKind, ObjectOwner, PayloadError},
};
use crate::{
    config::EmbeddingFormat,
    pipeline::{
        answer::ScanResult,
        embed_image::ImageEmbeddingResult,
        error::PipelineError,
        scan::Scan,
        stored::{hash_from_hex, to_value},
    },
    recognition::collections::candidates::StoredSearch,
};

/// The largest number of bytes of images on one page. A page with more ends early.
const MAX_PAGE_BYTES: usize = 64 << 20;

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
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = BatchItem)]
pub struct ItemAnswer {
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
    /// The result, as the operation's own answer has it. Absent if there is none, or if it was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The reason of an error. A queued item has the reason why its last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ItemErrorAnswer>,
    /// The caller's own data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub metadata: Option<JsonText>,
}

/// The error of an item.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = BatchItemError)]
pub struct ItemErrorAnswer {
    /// The stable code.
    #[schema(example = "image_truncated")]
    pub code: String,
    /// What is wrong and what to do.
    pub detail: String,
}

/// One page of items.
#[derive(Clone, Debug)]
pub struct ItemsPage {
    /// The items, in order.
    pub items: Vec<ItemAnswer>,
    /// The index to pass as `after` for the next page. `None` if this is the last page.
    pub next: Option<u64>,
}

impl Batches {
    /// Returns one page of the items of a batch.
    ///
    /// # Errors
    /// An error of the object store or of the database.
    pub async fn items(
        &self,
        batch: &Batch,
        state: Option<ItemState>,
        page: ItemPage,
        format: ResultFormat,
    ) -> Result<ItemsPage, BatchError> {
        let filter = ItemFilter { state };
        let items = self.store.list_items(batch.id, filter, page).await?;
        let is_full = items.len() == page.limit as usize;
        let plan = self.stored_plan(batch)?;
        let mut scans = self.scans_of(batch, &items).await?;
        let mut searches = self.searches_of((batch, &plan), &items).await?;
        let mut answers = Vec::with_capacity(items.len());
        let mut bytes = 0;
        let mut next = None;
        for item in items {
            let position = item.position;
            let result = match (item.result.scan_id, &item.result.result) {
                (Some(id), _) => scans
                    .remove(&id)
                    .and_then(|found| scan_result(found, &plan, format)),
                (None, Some(_)) if matches!(plan, BatchPlan::Search(_)) => {
                    searches.remove(&position).map(ItemResultJson::Stored)
                }
                (None, Some(stored)) => Some(
                    self.with_images(batch, stored.clone(), format, &mut bytes)
                        .await?,
                ),
                (None, None) => None,
            };
            answers.push((result, item));
            next = Some(position);
            if bytes > MAX_PAGE_BYTES {
                break;
            }
        }
        let is_last = !is_full && bytes <= MAX_PAGE_BYTES;
        let pool = &self.fan_out.scans.pipeline.pool;
        let items = pool
            .run(Stage::Begin, move || {
                answers
                    .into_iter()
                    .map(|(result, item)| answer(result, item))
                    .collect::<Result<Vec<_>, PipelineError>>()
            })
            .await
            .map_err(PipelineError::from)??;
        Ok(ItemsPage {
            items,
            next: next.filter(|_| !is_last),
        })
    }

    /// Resolves the options of a batch as they were stored.
    fn stored_plan(&self, batch: &Batch) -> Result<BatchPlan, BatchError> {
        let pipeline = &self.fan_out.scans.pipeline;
        let plan = BatchPlan::of_stored(&batch.operation, &batch.options, &self.config, pipeline)?;
        Ok(plan)
    }

    /// Returns the scans of some items by their ids. Several items can have the same scan.
    async fn scans_of(&self, batch: &Batch, items: &[Item]) -> Result<Scans, BatchError> {
        let mut uses: HashMap<Uuid, usize> = HashMap::new();
        for id in items.iter().filter_map(|item| item.result.scan_id) {
            *uses.entry(id).or_default() += 1;
        }
        let ids: Vec<_> = uses.keys().copied().collect();
        let store = &self.fan_out.scans.store;
        let found = store.scans(&batch.tenant, &ids).await?;
        let found = found.into_iter().map(|found| (found.scan.id, found));
        Ok(Scans {
            found: found.collect(),
            uses,
        })
    }

    /// Returns the results of searches by the positions of their items.
    async fn searches_of(
        &self,
        (batch, plan): (&Batch, &BatchPlan),
        items: &[Item],
    ) -> Result<HashMap<u64, Value>, BatchError> {
        let BatchPlan::Search(plan) = plan else {
            return Ok(HashMap::new());
        };
        let key = CollectionKey {
            tenant: &batch.tenant,
            id: plan.collection,
        };
        let stored = items.iter().filter_map(|item| {
            let result = item.result.result.clone()?;
            // `None` if another version wrote other fields.
            let search: StoredSearch = serde_json::from_value(result).ok()?;
            Some((item.position, search))
        });
        let (positions, stored): (Vec<u64>, Vec<StoredSearch>) = stored.unzip();
        let found = self.collections.restore(key, stored).await?;
        let found = found.iter().map(to_value);
        let found: Vec<Value> = found.collect::<Result<_, PipelineError>>()?;
        Ok(positions.into_iter().zip(found).collect())
    }

    /// Replaces the hashes in a stored result by the images.
    async fn with_images(
        &self,
        batch: &Batch,
        mut result: Value,
        format: ResultFormat,
        bytes: &mut usize,
    ) -> Result<ItemResultJson, BatchError> {
        let enhanced = result.get_mut("enhanced").into_iter();
        let files: Vec<&mut Value> = match enhanced.len() {
            0 => {
                let processed = result.get_mut("processed").and_then(Value::as_array_mut);
                processed.into_iter().flatten().collect()
            }
            _ => result.get_mut("enhanced").into_iter().collect(),
        };
        let owner = ObjectOwner {
            tenant: &batch.tenant,
            batch: batch.id,
        };
        for file in files {
            let hash = file["data"]
                .as_str()
                .and_then(|text| hash_from_hex(text).ok());
            let data = match hash.filter(|_| !format.without_data) {
                None => None,
                Some(hash) => match self.payloads.get(owner, ObjectKind::Output, &hash).await {
                    Ok(data) => Some(data),
                    Err(PayloadError::Missing) => None,
                    Err(error) => return Err(error.into()),
                },
            };
            match (file.as_object_mut(), data) {
                (Some(file), Some(data)) => {
                    *bytes += data.len();
                    file.insert("data".to_owned(), BASE64_STANDARD.encode(data).into());
                }
                (Some(file), None) => {
                    file.shift_remove("data");
                }
                (None, _) => {}
            }
        }
        Ok(ItemResultJson::Stored(result))
    }
}

/// The scans of a page. The last item that has a scan takes it.
struct Scans {
    found: HashMap<Uuid, CachedScan>,
    uses: HashMap<Uuid, usize>,
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

/// A result before it is written as JSON.
enum ItemResultJson {
    Scan(Box<ScanResult>),
    Image(Box<ImageEmbeddingResult>),
    Stored(Value),
}

fn scan_result(
    found: CachedScan,
    plan: &BatchPlan,
    format: ResultFormat,
) -> Option<ItemResultJson> {
    // `None` if another version wrote other fields.
    let mut scan = Scan::from_stored(found)?.result;
    scan.cached = false;
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
            Some(ItemResultJson::Scan(Box::new(result)))
        }
        BatchPlan::ImageEmbedding(plan) => {
            let mut plan = plan.as_ref().clone();
            plan.embedding_format = format.embedding_format.unwrap_or(plan.embedding_format);
            let result = ImageEmbeddingResult::new(scan, &plan);
            Some(ItemResultJson::Image(Box::new(result)))
        }
        BatchPlan::Enhance(_) | BatchPlan::Process(_) | BatchPlan::Search(_) => None,
    }
}

/// Writes an item. This is CPU work for vectors.
fn answer(result: Option<ItemResultJson>, item: Item) -> Result<ItemAnswer, PipelineError> {
    let cached = item.cached;
    let result = match result {
        None => None,
        Some(ItemResultJson::Stored(value)) => Some(value),
        Some(ItemResultJson::Scan(result)) => {
            let result = ScanResult { cached, ..*result };
            Some(serde_json::from_slice(&serde_json::to_vec(&result)?)?)
        }
        Some(ItemResultJson::Image(result)) => {
            let result = ImageEmbeddingResult { cached, ..*result };
            Some(serde_json::from_slice(&serde_json::to_vec(&result)?)?)
        }
    };
    Ok(ItemAnswer {
        index: item.position,
        id: item.id,
        state: item.state.name(),
        attempts: item.attempts,
        cached,
        result,
        error: item
            .error
            .map(|(code, detail)| ItemErrorAnswer { code, detail }),
        metadata: item.metadata,
    })
}
