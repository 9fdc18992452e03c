//! Results that use the database. A stored result is returned if there is one, and new results are stored.
//!
//! [`StoredPlan`] is a plan whose results can be stored: a scan for faces, or the embedding of whole images. `key.rs` has
//! the digest that finds a stored result, and `rows.rs` converts results to and from rows.

mod key;
mod rows;

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    context::RequestContext,
    pipeline::{
        Pipeline,
        error::PipelineError,
        faces::Face,
        options::StorageOptions,
        run::RunOutput,
        scan::{ContentHash, Scan, content_hash, millis},
    },
};
use facescan_imaging::precision::NumericPrecision;
use facescan_inference::{device_task::DeviceTask, pool::Stage};
use facescan_store::{NewScan, SavedScan, Source, Store};

pub use key::Precisions;
pub use rows::{hash_from_hex, model_file, to_value};

/// A plan whose results can be stored.
pub trait StoredPlan: Clone + Send + Sync {
    /// Returns how the results are stored.
    fn storage(&self) -> &StorageOptions;

    /// Returns the plan with other options of storage.
    #[must_use]
    fn with_storage(&self, storage: StorageOptions) -> Self;

    /// Returns the name of the operation in the database.
    fn operation_name(&self) -> &'static str;

    /// Returns the options that decide the results, as an object.
    fn key_options(&self) -> serde_json::Value;

    /// Returns the operations that take part.
    fn taking_part(&self) -> Vec<DeviceTask>;

    /// Returns the operation that computes the vectors of the results. `None` if they have no vectors.
    fn embedding_operation(&self) -> Option<DeviceTask>;

    /// Returns the precision of a vector that is computed now.
    fn current_precision(&self, pipeline: &Pipeline) -> Option<NumericPrecision>;

    /// Returns whether the detector takes part.
    fn detects(&self) -> bool;

    /// Runs the plan without the database. `hash` is the hash of the bytes, if it is already computed.
    fn run_unstored(
        &self,
        pipeline: &Pipeline,
        context: &RequestContext,
        bytes: Bytes,
        hash: Option<ContentHash>,
    ) -> impl Future<Output = Result<RunOutput<Scan>, PipelineError>> + Send;

    /// Returns the plan of one image, which can have its own source. If the request has no `source_url`, this is the URL
    /// that the image was fetched from.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if a source is too long.
    fn for_image(
        &self,
        source: Option<String>,
        source_url: Option<String>,
        fetched_from: Option<String>,
    ) -> Result<Self, PipelineError> {
        let storage = self.storage().for_image(source, source_url, fetched_from)?;
        Ok(self.with_storage(storage))
    }
}

/// The pipeline with the database.
#[derive(Clone)]
pub struct StoredScans {
    /// Processes images.
    pub pipeline: Pipeline,
    /// Store results.
    pub store: Store,
}

/// A result that was stored before, or a new one.
pub enum FoundScan {
    /// The database had it.
    Stored {
        /// The id of the scan.
        id: Uuid,
        /// The batch that made it, if no request was answered with it yet.
        batch_id: Option<Uuid>,
        /// The result.
        output: Box<RunOutput<Scan>>,
    },
    /// It is new, and not stored yet.
    New {
        /// The result.
        output: Box<RunOutput<Scan>>,
        /// The rows to be saved.
        rows: Box<NewScan>,
    },
}

/// The content of an image file, as the database identifies it.
struct Content<'a> {
    tenant: &'a str,
    hash: ContentHash,
    byte_size: u64,
}

impl StoredScans {
    /// Runs a plan on one image. Uses the database if the options request it.
    ///
    /// # Errors
    /// An error of the image, of a model or of the server. Returns [`PipelineError::Store`] before any inference if the
    /// database cannot be used.
    pub async fn run<P: StoredPlan>(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &P,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        let started = self.pipeline.clock.monotonic();
        if !plan.storage().store {
            return plan
                .run_unstored(&self.pipeline, context, bytes, None)
                .await;
        }
        match self.find_or_run(context, bytes, plan).await? {
            FoundScan::Stored {
                id,
                batch_id,
                output,
            } => {
                if batch_id.is_some() {
                    self.store.keep_scan(id).await?;
                }
                Ok(*output)
            }
            FoundScan::New { output, rows } => {
                let saving = self.pipeline.clock.monotonic();
                let mut saved = self.save(*output, *rows).await?;
                let timings = &mut saved.run.timings;
                timings.store = self.pipeline.since(saving);
                timings.total = self.pipeline.since(started);
                Ok(saved)
            }
        }
    }

    /// Returns the ids of stored results of `plan` for images with these hashes.
    ///
    /// # Errors
    /// Returns [`PipelineError::Store`] if the database cannot be used.
    pub async fn known<P: StoredPlan>(
        &self,
        context: &RequestContext,
        plan: &P,
        hashes: &[ContentHash],
    ) -> Result<Vec<(ContentHash, Uuid)>, PipelineError> {
        let precision = plan.current_precision(&self.pipeline);
        let key = key::scan_key(&self.pipeline, plan, precision);
        let tenant = &context.principal.tenant;
        Ok(self.store.cached_scan_ids(tenant, &key, hashes).await?)
    }

    /// Returns the stored result of one image, or runs the plan. A new result is not saved.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub async fn find_or_run<P: StoredPlan>(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &P,
    ) -> Result<FoundScan, PipelineError> {
        let started = self.pipeline.clock.monotonic();
        let hashed = bytes.clone();
        let tenant = Some(Arc::clone(&context.principal.tenant));
        let hash = self
            .pipeline
            .pool
            .run_for(tenant, Stage::Begin, move || content_hash(&hashed))
            .await?;
        let content = Content {
            tenant: &context.principal.tenant,
            hash,
            byte_size: bytes.len() as u64,
        };
        let precision = plan.current_precision(&self.pipeline);
        if plan.storage().cache {
            if let Some(found) = self.find(&content, plan, precision, started).await? {
                return Ok(found);
            }
        } else {
            self.store.ping().await?;
        }
        let looked_up = self.pipeline.clock.monotonic();
        let mut output = plan
            .run_unstored(&self.pipeline, context, bytes, Some(hash))
            .await?;
        output.run.timings.cache = millis(looked_up - started);
        let precisions = Precisions::of(&output.result).unwrap_or(Precisions::Same(precision));
        let rows = self.new_scan(&output, content, plan, precisions)?;
        Ok(FoundScan::New {
            output: Box::new(output),
            rows: Box::new(rows),
        })
    }

    async fn find<P: StoredPlan>(
        &self,
        content: &Content<'_>,
        plan: &P,
        precision: Option<NumericPrecision>,
        started: std::time::Duration,
    ) -> Result<Option<FoundScan>, PipelineError> {
        let key = key::scan_key(&self.pipeline, plan, precision);
        let found = self.store.find_scan(content.tenant, &content.hash, &key);
        let Some(found) = found.await? else {
            return Ok(None);
        };
        let (image_id, id, batch_id) = (found.image.id, found.scan.id, found.scan.batch_id);
        let Some(mut output) = Scan::from_stored(found) else {
            return Ok(None);
        };
        if let Some(source) = self.source(plan.storage()) {
            let is_there = self.store.add_source(content.tenant, image_id, &source);
            if !is_there.await? {
                // The image was erased in the meantime. Erased results are not returned.
                return Ok(None);
            }
        }
        let timings = &mut output.run.timings;
        timings.cache = self.pipeline.since(started);
        timings.total = timings.cache;
        Ok(Some(FoundScan::Stored {
            id,
            batch_id,
            output: Box::new(output),
        }))
    }

    fn source(&self, options: &StorageOptions) -> Option<Source> {
        (options.source.is_some() || options.source_url.is_some()).then(|| Source {
            id: options.source.clone(),
            url: options.source_url.clone(),
            seen_at: self.pipeline.clock.now(),
        })
    }

    async fn save(
        &self,
        mut scanned: RunOutput<Scan>,
        new_scan: NewScan,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        let ids: Vec<_> = new_scan.faces.iter().map(|face| face.id).collect();
        let saved = self.store.save_scan(new_scan).await?;
        let kept_id = saved.image_id();
        let scan = &mut scanned.result;
        scan.image_id = Some(kept_id);
        match saved {
            SavedScan::Written { .. } => {
                for (face, id) in scan.faces.iter_mut().zip(ids) {
                    face.id = Some(id);
                }
            }
            // Another request stored the same scan first. Only its faces can be read and erased.
            SavedScan::Kept(kept) => {
                let devices = rows::read_back(kept.devices).flatten().unwrap_or_default();
                let kept: Option<Vec<_>> = kept.faces.into_iter().map(Face::from_stored).collect();
                match kept {
                    Some(kept) if kept.len() == scan.faces.len() => {
                        let crops = std::mem::take(&mut scan.faces)
                            .into_iter()
                            .map(|face| face.crop);
                        scan.faces = kept
                            .into_iter()
                            .zip(crops)
                            .map(|(face, crop)| Face { crop, ..face })
                            .collect();
                        scanned.run.devices = devices;
                    }
                    _ => tracing::warn!(
                        image_id = %kept_id,
                        "this version cannot read a stored scan; the faces of the answer have no ids"
                    ),
                }
            }
        }
        Ok(scanned)
    }
}
