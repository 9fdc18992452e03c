//! One item: load its image and run the plan.

use std::{collections::HashMap, slice};

use bytes::Bytes;
use facescan_inference::pool::Stage;
use facescan_pipeline::{
    context::RequestContext,
    core::{
        error::PipelineError,
        image_file::{ContentHash, content_hash, hex},
        json::to_value,
        run::{RunOutput, StoredScan},
    },
    ingest::{
        intake::LoadedImage,
        source::{Content, ImageInput},
    },
    operations::{enhance::result::EnhanceResult, process::result::ProcessResult},
    plan::Plan,
    runner::Saving,
};
use facescan_recognition::collections::candidates::StoredSearch;
use facescan_store::{ItemOutcome, LeasedItem, ScanOutcome};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    Batches,
    error::BatchError,
    operation::{BatchPlan, BatchSearchPlan, with_plan},
    payloads::{ObjectKind, ObjectOwner, PayloadError},
};

/// Returns the code and the text of an error, as responses have them.
pub type Describe = fn(BatchError) -> (&'static str, String);

/// What another attempt can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing: the image is at fault.
    Permanent,
    /// Perhaps everything.
    Temporary,
    /// Everything, as soon as a part of the installation works again. The attempt does not count.
    Wait,
}

/// An item whose image is no longer in the object store.
const PAYLOAD_MISSING: &str = "payload_missing";

/// An attempt that took longer than it may.
const TOO_LONG: &str = "deadline_exceeded";

/// The result of an item.
#[derive(Clone, Debug)]
pub(super) enum ItemEnd {
    /// It has a result.
    Done {
        scan: Option<ScanOutcome>,
        result: Option<Value>,
        is_copy: bool,
    },
    /// It failed.
    Failed {
        failure: Failure,
        code: String,
        detail: String,
    },
}

impl ItemEnd {
    fn of_scan(scan: ScanOutcome) -> Self {
        Self::Done {
            scan: Some(scan),
            result: None,
            is_copy: false,
        }
    }

    fn of_result(result: Option<Value>, is_copy: bool) -> Self {
        Self::Done {
            scan: None,
            result,
            is_copy,
        }
    }

    /// Returns the outcome for an item that has had `attempts` attempts with this one. `None` means that the item waits.
    pub(super) fn outcome(
        self,
        position: u64,
        attempts: u32,
        max_attempts: u32,
    ) -> Option<ItemOutcome> {
        let (failure, code, detail) = match self {
            Self::Done {
                scan,
                result,
                is_copy,
            } => {
                return Some(ItemOutcome::Ok {
                    position,
                    scan,
                    result,
                    is_copy,
                });
            }
            Self::Failed {
                failure,
                code,
                detail,
            } => (failure, code, detail),
        };
        match failure {
            Failure::Wait => None,
            Failure::Temporary if attempts < max_attempts => Some(ItemOutcome::Retry {
                position,
                code,
                detail,
            }),
            Failure::Temporary | Failure::Permanent => Some(ItemOutcome::Failed {
                position,
                is_dead: failure == Failure::Temporary,
                code,
                detail,
            }),
        }
    }

    /// Returns the end of another item with the same image. Returns `None` if that item has to run itself.
    pub(super) fn for_copy(&self, batches: &Batches, item: &LeasedItem) -> Option<Self> {
        Some(match self {
            Self::Done {
                scan: Some(ScanOutcome::New(scan)),
                ..
            } if scan.record.answers_cache => {
                let mut copy = scan.clone();
                // The first one is saved, and this one only adds its source.
                copy.id = batches.clock().new_id();
                copy.source = item.has_source().then(|| facescan_store::Source {
                    id: item.source.clone(),
                    url: item.source_url.clone(),
                    seen_at: batches.clock().now(),
                });
                Self::of_scan(ScanOutcome::New(copy))
            }
            Self::Done { scan: Some(_), .. } => return None,
            Self::Done {
                scan: None, result, ..
            } => Self::of_result(result.clone(), true),
            Self::Failed { .. } => self.clone(),
        })
    }
}

/// The stored results of a chunk's images, found before its items run.
pub(super) type KnownResults = HashMap<ContentHash, Uuid>;

/// What the items of a chunk share.
pub(super) struct ItemRunner<'a> {
    pub batches: &'a Batches,
    pub batch: Uuid,
    pub plan: &'a BatchPlan,
    pub context: &'a RequestContext,
    pub describe: Describe,
}

impl ItemRunner<'_> {
    /// Finds stored results for items in one query. An item with a source is not among them, because its source has to be
    /// stored, too.
    pub(super) async fn known(&self, items: &[&LeasedItem]) -> KnownResults {
        let hashes: Vec<ContentHash> = items
            .iter()
            .filter(|item| !item.has_source())
            .filter_map(|item| item.payload)
            .collect();
        let runner = &self.batches.runner;
        let found = with_plan!(self.plan, plan => {
            runner.find_cached(self.context, plan, &hashes).await
        });
        match found {
            Ok(found) => found.into_iter().collect(),
            Err(error) => {
                // Each item looks for itself then, and waits if it has to.
                tracing::debug!(%error, "stored results cannot be looked up now");
                KnownResults::new()
            }
        }
    }

    /// Returns the end of an item whose result is known.
    pub(super) fn end_of_known(&self, item: &LeasedItem, known: &KnownResults) -> Option<ItemEnd> {
        let id = known.get(&item.payload?)?;
        (!item.has_source()).then(|| ItemEnd::of_scan(ScanOutcome::Cached(*id)))
    }

    /// Loads the image of an item and runs the plan, within the time limit of an item.
    pub(super) async fn run(&self, item: &LeasedItem) -> ItemEnd {
        let runner = &self.batches.runner;
        let tenant = &self.context.principal.tenant;
        let admission = &runner.admission;
        let _admitted = admission.admit(tenant, self.context.priority, 1).await;
        let limit = self.batches.config.batches.item_timeout_ms.duration();
        let context = RequestContext {
            deadline: Some(self.batches.clock().monotonic() + limit),
            ..self.context.clone()
        };
        let runner = ItemRunner {
            context: &context,
            ..*self
        };
        let ended = tokio::time::timeout(limit, runner.run_admitted(item)).await;
        ended.unwrap_or_else(|_| ItemEnd::Failed {
            failure: Failure::Temporary,
            code: TOO_LONG.to_owned(),
            detail: format!(
                "the item took longer than {} ms; send a smaller image or fewer steps, or allow more time in \
                 `batches.item_timeout_ms`",
                limit.as_millis()
            ),
        })
    }

    async fn run_admitted(&self, item: &LeasedItem) -> ItemEnd {
        match self.try_run(item).await {
            Ok(end) => end,
            // A folder that is not mounted looks like an empty one, so the item is tried again.
            Err(BatchError::Payload(PayloadError::Missing)) => ItemEnd::Failed {
                failure: Failure::Temporary,
                code: PAYLOAD_MISSING.to_owned(),
                detail: "the image is no longer there; submit it again".to_owned(),
            },
            Err(BatchError::Payload(error)) => {
                tracing::warn!(item = item.position, %error, "the image cannot be read now; the item waits");
                ItemEnd::Failed {
                    failure: Failure::Wait,
                    code: String::new(),
                    detail: String::new(),
                }
            }
            Err(error) => {
                let failure = Failure::from(&error);
                let (code, detail) = (self.describe)(error);
                tracing::debug!(item = item.position, code, detail, "an item failed");
                ItemEnd::Failed {
                    failure,
                    code: code.to_owned(),
                    detail,
                }
            }
        }
    }

    async fn try_run(&self, item: &LeasedItem) -> Result<ItemEnd, BatchError> {
        if let Some(payload) = item.payload.filter(|_| self.plan.repeats_results()) {
            let store = &self.batches.store;
            let earlier = store.result_of_payload(self.batch, payload).await;
            if let Some(result) = earlier? {
                return Ok(ItemEnd::of_result(Some(result), true));
            }
        }
        if self.plan.search().is_some() {
            // Before the image costs anything.
            self.batches.collections.check_quota(self.context).await?;
        }
        let image = self.load(item).await?;
        match self.plan {
            BatchPlan::Scan(plan) => self.scan(plan.as_ref(), image).await,
            BatchPlan::ImageEmbedding(plan) => self.scan(plan.as_ref(), image).await,
            BatchPlan::Enhance(plan) => {
                let runner = &self.batches.runner;
                let output = runner.run(self.context, image, plan.as_ref()).await?;
                self.enhanced(output).await
            }
            BatchPlan::Process(plan) => {
                let runner = &self.batches.runner;
                let plan = plan.with_new_budget();
                let output = runner.run(self.context, image, &plan).await?;
                self.processed(output).await
            }
            BatchPlan::Search(plan) => self.search(plan, image).await,
        }
    }

    async fn load(&self, item: &LeasedItem) -> Result<LoadedImage, BatchError> {
        let content = match (&item.payload, &item.url) {
            (Some(hash), _) => {
                let payloads = &self.batches.payloads;
                Content::Bytes(payloads.get(self.owner(), ObjectKind::Input, hash).await?)
            }
            (None, Some(url)) => Content::Url(url.clone()),
            (None, None) => return Err(PayloadError::Missing.into()),
        };
        let input = ImageInput {
            id: None,
            source: item.source.clone(),
            source_url: item.source_url.clone(),
            content: Ok(content),
        };
        Ok(self.batches.runner.load(self.context, input).await?)
    }

    fn owner(&self) -> ObjectOwner<'_> {
        ObjectOwner {
            tenant: &self.context.principal.tenant,
            batch: self.batch,
        }
    }

    /// Finds or makes the scan of an image. The transaction that finishes the item saves a new one.
    async fn scan<P: Plan>(&self, plan: &P, image: LoadedImage) -> Result<ItemEnd, BatchError> {
        let runner = &self.batches.runner;
        // On the heap, because a worker holds one such future for each item.
        let ran = Box::pin(runner.find_or_run(self.context, image, plan, Saving::ByCaller)).await?;
        Ok(ItemEnd::of_scan(match ran.stored {
            Some(StoredScan::Found(id)) => ScanOutcome::Cached(id),
            Some(StoredScan::New(rows)) => {
                facescan_store::check_scan(&rows)?;
                ScanOutcome::New(rows)
            }
            Some(StoredScan::Saved) | None => {
                let detail = "the plan of the batch does not store its results";
                return Err(PipelineError::UnexpectedOutput(detail.to_owned()).into());
            }
        }))
    }

    async fn enhanced(&self, output: RunOutput<EnhanceResult>) -> Result<ItemEnd, BatchError> {
        let mut result = output.result;
        let data = std::mem::take(&mut result.enhanced.data);
        let mut stored = to_value(&result)?;
        stored["enhanced"]["data"] = self.store(data).await?;
        Ok(ItemEnd::of_result(Some(stored), false))
    }

    async fn processed(&self, output: RunOutput<ProcessResult>) -> Result<ItemEnd, BatchError> {
        let mut result = output.result;
        let files = result.processed.iter_mut();
        let files: Vec<Bytes> = files.map(|file| std::mem::take(&mut file.data)).collect();
        let mut stored = to_value(&result)?;
        for (index, data) in files.into_iter().enumerate() {
            stored["processed"][index]["data"] = self.store(data).await?;
        }
        Ok(ItemEnd::of_result(Some(stored), false))
    }

    /// Searches for a face of an image. The audit trail has the search before the item has its result.
    async fn search(
        &self,
        plan: &BatchSearchPlan,
        image: LoadedImage,
    ) -> Result<ItemEnd, BatchError> {
        let Batches {
            runner,
            collections,
            ..
        } = self.batches;
        let scanned = runner.run(self.context, image, &plan.image.scan);
        let vector_space = &runner.pipeline.models.embedder.vector_space;
        let vector = plan
            .image
            .face_to_search(vector_space, scanned.await?.result)?;
        let collection = collections.of(self.context, plan.collection).await?;
        let wanted = (slice::from_ref(&vector), &plan.search);
        let results = collections
            .search(self.context, &collection, wanted)
            .await?;
        let result = results.into_iter().next();
        let result = result.ok_or_else(|| {
            PipelineError::UnexpectedOutput("the search has no result".to_owned())
        })?;
        let stored = to_value(&StoredSearch::from(result))?;
        Ok(ItemEnd::of_result(Some(stored), false))
    }

    /// Writes an image that the operation made. Returns its hash, which stands for the image in the stored result.
    async fn store(&self, data: Bytes) -> Result<Value, BatchError> {
        let hashed = data.clone();
        let pool = &self.batches.runner.pipeline.pool;
        let hash = pool
            .run(Stage::Begin, move || content_hash(&hashed))
            .await
            .map_err(PipelineError::from)?;
        let payloads = &self.batches.payloads;
        payloads
            .put(self.owner(), ObjectKind::Output, &hash, data)
            .await?;
        Ok(hex(&hash).into())
    }
}
