//! The results of a plan in the database. A stored result is returned if there is one, and new results are stored.

use std::{sync::Arc, time::Duration};

use facescan_imaging::precision::NumericPrecision;
use facescan_inference::device_task::DeviceTask;
use facescan_store::{CachedScan, NewScan, SavedScan, Source, Store};

use crate::{
    Pipeline,
    context::RequestContext,
    core::{
        error::PipelineError,
        image_file::ContentHash,
        json::read_back,
        options::StorageOptions,
        run::{RunOutput, StoredScan, millis},
        scan::{Face, Scan},
    },
    ingest::intake::LoadedImage,
    models::Models,
    plan::{Plan, StoredAs, scan_key},
};

/// Who saves a new result that the plan stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saving {
    /// The runner does, at once. A caller gets the result.
    Now,
    /// The caller does, in a transaction of its own.
    ByCaller,
}

/// The storage of the result of one image.
pub(super) struct Storage<'a, P: Plan> {
    pub pipeline: &'a Pipeline,
    store: &'a Store,
    pub tenant: &'a Arc<str>,
    plan: &'a P,
    pub stored: StoredAs<'a, P::Output>,
    /// The options of this image, which can have its own source.
    options: StorageOptions,
    /// The device tasks that take part.
    pub tasks: Vec<DeviceTask>,
    /// The task that computes the vectors of the result, and the precision that it has now.
    pub vector_task: Option<DeviceTask>,
    pub precision: Option<NumericPrecision>,
    /// The key of the result in this precision.
    expected_key: ContentHash,
    /// The sha256 of the image. The lookup sets it.
    pub hash: ContentHash,
    pub byte_size: u64,
    started: Duration,
    looked_up: Duration,
}

impl<'a, P: Plan> Storage<'a, P> {
    /// Returns the storage for the result of an image. Returns `None` if it is not stored.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if a source of the image is too long.
    pub(crate) fn new(
        pipeline: &'a Pipeline,
        store: &'a Store,
        context: &'a RequestContext,
        plan: &'a P,
        image: &LoadedImage,
    ) -> Result<Option<Self>, PipelineError> {
        let Some(stored) = plan.stored() else {
            return Ok(None);
        };
        let options = stored.storage.for_image(image)?;
        if !options.store {
            return Ok(None);
        }
        let tasks = plan.tasks();
        let vector_task = Models::vector_task(&tasks);
        let precision = vector_task.and_then(|task| pipeline.models.current_precision(task));
        let started = pipeline.clock.monotonic();
        Ok(Some(Self {
            pipeline,
            store,
            tenant: &context.principal.tenant,
            expected_key: scan_key(pipeline, plan, stored.name, precision),
            plan,
            stored,
            options,
            tasks,
            vector_task,
            precision,
            hash: ContentHash::default(),
            byte_size: image.bytes.len() as u64,
            started,
            looked_up: started,
        }))
    }

    /// Looks a stored result up, if the options allow it. Otherwise checks that the database can be used.
    pub(crate) async fn find(
        &mut self,
        image: &mut LoadedImage,
        saving: Saving,
    ) -> Result<Option<RunOutput<P::Output>>, PipelineError> {
        self.hash = self.pipeline.hash(self.tenant, image).await?;
        if self.options.cache {
            let key = &self.expected_key;
            let found = self.store.find_scan(self.tenant, &self.hash, key).await?;
            if let Some(found) = found
                && let Some(found) = self.returned(found, saving).await?
            {
                return Ok(Some(found));
            }
        } else {
            self.store.ping().await?;
        }
        self.looked_up = self.pipeline.clock.monotonic();
        Ok(None)
    }

    /// Returns the key of the result, whose vectors have this precision.
    pub(crate) fn key(&self, precision: Option<NumericPrecision>) -> ContentHash {
        if precision == self.precision {
            return self.expected_key;
        }
        scan_key(self.pipeline, self.plan, self.stored.name, precision)
    }

    /// Converts a stored result. Returns `None` if another version wrote it, or if it was erased in the meantime.
    async fn returned(
        &self,
        found: CachedScan,
        saving: Saving,
    ) -> Result<Option<RunOutput<P::Output>>, PipelineError> {
        let (image_id, id, batch_id) = (found.image.id, found.scan.id, found.scan.batch_id);
        let Some(output) = Scan::from_stored(found) else {
            return Ok(None);
        };
        if let Some(source) = self.source() {
            let is_there = self.store.add_source(self.tenant, image_id, &source);
            if !is_there.await? {
                // Erased results are not returned.
                return Ok(None);
            }
        }
        let mut output = output.map(self.stored.from_scan);
        let timings = &mut output.run.timings;
        timings.cache = self.pipeline.since(self.started);
        timings.total = timings.cache;
        // A batch made it, and no caller has got it yet.
        if saving == Saving::Now && batch_id.is_some() {
            self.store.keep_scan(id).await?;
        }
        Ok(Some(output))
    }

    /// Saves a new result, or returns the rows to the caller who saves them.
    pub(crate) async fn keep(
        self,
        mut output: RunOutput<P::Output>,
        saving: Saving,
    ) -> Result<RunOutput<P::Output>, PipelineError> {
        output.run.timings.cache = millis(self.looked_up.saturating_sub(self.started));
        let scan = (self.stored.scan)(&mut output.result);
        let rows = self.new_scan(scan, &output.run)?;
        let stored = match saving {
            Saving::ByCaller => StoredScan::New(Box::new(rows)),
            Saving::Now => {
                let saving = self.pipeline.clock.monotonic();
                self.save(&mut output, rows).await?;
                let timings = &mut output.run.timings;
                timings.store = self.pipeline.since(saving);
                timings.total = self.pipeline.since(self.started);
                StoredScan::Saved
            }
        };
        output.stored = Some(stored);
        Ok(output)
    }

    /// Returns where the image was found, if the caller says so.
    pub(crate) fn source(&self) -> Option<Source> {
        let options = &self.options;
        (options.source.is_some() || options.source_url.is_some()).then(|| Source {
            id: options.source.clone(),
            url: options.source_url.clone(),
            seen_at: self.pipeline.clock.now(),
        })
    }

    async fn save(
        &self,
        output: &mut RunOutput<P::Output>,
        rows: NewScan,
    ) -> Result<(), PipelineError> {
        let ids: Vec<_> = rows.faces.iter().map(|face| face.id).collect();
        let saved = self.store.save_scan(rows).await?;
        let kept_id = saved.image_id();
        let scan = (self.stored.scan)(&mut output.result);
        scan.image_id = Some(kept_id);
        match saved {
            SavedScan::Written { .. } => {
                for (face, id) in scan.faces.iter_mut().zip(ids) {
                    face.id = Some(id);
                }
            }
            // Another request stored the same scan first. Only its faces can be read and erased.
            SavedScan::Kept(kept) => {
                let devices = read_back(kept.record.devices).flatten().unwrap_or_default();
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
                        output.run.devices = devices;
                    }
                    _ => tracing::warn!(
                        image_id = %kept_id,
                        "this version cannot read a stored scan; the faces of the response have no ids"
                    ),
                }
            }
        }
        Ok(())
    }
}
