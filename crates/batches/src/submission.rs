//! Submissions: requests that create a batch or add items to one.
//!
//! A submission reads its entries one after another, so a request of any length needs little memory. It writes the images
//! to the object store first and the items to the database second. An item in the database therefore has its image.

mod digest;
mod entry;
mod receipt;

use std::{collections::HashSet, mem, sync::Arc};

use bytes::Bytes;
use facescan_audit::AuditEvent;
use facescan_config::{AuditLevel, scope::Scope};
use facescan_inference::pool::Stage;
use facescan_pipeline::{
    admission::Priority,
    context::RequestContext,
    core::{error::PipelineError, image_file::ContentHash},
};
use facescan_recognition::error::RecognitionError;
use facescan_store::{
    AddedItems, Batch, CompleteRequest, CreatedBatch, NewBatch, NewItem, NewItems,
};
use facescan_telemetry::traces;
use futures::{FutureExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};

use super::{
    Batches,
    batches::check_searcher,
    error::BatchError,
    operation::{BatchPlan, BatchSearchPlan, ResolvedOptions},
    payloads::{ObjectKind, ObjectOwner},
    webhooks::shown_secret,
};

use entry::CheckedEntry;

pub use digest::BatchHead;
pub use entry::{EntryError, ItemEntry};
pub use receipt::{Receipt, RefusedEntry};

/// The largest number of images that are written to the object store at a time.
const WRITES_IN_FLIGHT: usize = 8;

/// The largest number of bytes that a submission holds before it writes them.
const MAX_PENDING_BYTES: usize = 32 << 20;

/// The number of images that a submission remembers.
const MAX_REMEMBERED: usize = 4096;

/// Entries with more bytes are checked on the CPU pool.
const SMALL_ENTRIES: usize = 256 << 10;

/// A submission that reads entries.
pub struct Submission<'a> {
    batches: &'a Batches,
    context: RequestContext,
    batch: Batch,
    purpose: Purpose,
    digest: Sha256,
    pending: Vec<(NewItem, Option<(ContentHash, Bytes)>)>,
    pending_bytes: usize,
    /// The entries that were read since the last write.
    pending_read: u64,
    /// The entries that an interrupted request with this key has written.
    written_before: u64,
    receipt: Receipt,
    /// The images that were written last, so that an image that many items have is written once.
    written: HashSet<ContentHash>,
}

/// Why a submission reads entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// It creates a batch, or continues the interrupted request that did.
    Create { stays_open: bool },
    /// It repeats the request that created a batch. It writes nothing.
    Repeat,
    /// It adds items to an open batch.
    Add,
}

impl Purpose {
    /// Returns the purpose of a request whose idempotency key has created a batch before.
    fn from_existing(
        batch: &Batch,
        (context, operation): (&RequestContext, &str),
        stays_open: bool,
    ) -> Result<Self, BatchError> {
        if batch.operation != operation {
            return Err(BatchError::KeyReused(batch.id));
        }
        if batch.request_digest.is_some() {
            return Ok(Self::Repeat);
        }
        // The request was interrupted. What it has written is skipped.
        check_searcher(context, batch)?;
        Ok(Self::Create { stays_open })
    }
}

/// The end of a submission.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The response.
    pub receipt: Receipt,
    /// Whether the batch was there before.
    pub is_repeated: bool,
}

impl Batches {
    /// Begins a submission that creates a batch.
    ///
    /// # Errors
    /// An error of an option or of the database.
    pub async fn submit(
        &self,
        context: &RequestContext,
        head: BatchHead,
    ) -> Result<Submission<'_>, BatchError> {
        let pipeline = &self.runner.pipeline;
        let ResolvedOptions {
            plan,
            options,
            priority,
        } = BatchPlan::resolve(head.operation, head.options.clone(), &self.config, pipeline)?;
        let far = match plan.search() {
            Some(search) => Some(self.check_search(context, search).await?),
            None => None,
        };
        let now = self.clock().now();
        let priority = head.priority.or(priority).unwrap_or(Priority::Bulk);
        let models = pipeline.models.used(&plan.tasks());
        let digest = digest::begin_digest(&head, &options);
        let options = match far {
            Some(far) => BatchSearchPlan::with_far(options, far),
            None => options,
        };
        let tenant = &context.principal.tenant;
        let id = self.clock().new_id();
        let webhook = head.webhook.as_ref();
        let webhook = webhook.map(|own| self.webhook_of_batch(context, id, own));
        let new = NewBatch {
            id,
            tenant: tenant.to_string(),
            name: head.name,
            operation: head.operation.name().to_owned(),
            options,
            models: serde_json::to_value(models).map_err(PipelineError::from)?,
            models_key: plan.models_key(&self.config, pipeline),
            priority: priority.name().to_owned(),
            idempotency_key: head.idempotency_key,
            chunk_size: self.config.batches.chunk_size,
            created_at: now,
            expires_at: self.config.batches.ttl().map(|ttl| now + ttl),
            traceparent: traces::traceparent(&context.span),
            key_id: context.principal.key_id.as_deref().map(str::to_owned),
            webhook: webhook.transpose()?,
        };
        let stays_open = head.open;
        let of = (self, context);
        match self.store.create_batch(&new).await? {
            CreatedBatch::New(batch) => {
                let mut submission =
                    Submission::new(of, batch, Purpose::Create { stays_open }, digest);
                let own = new.webhook.as_ref().map(|own| shown_secret(&own.webhook));
                submission.receipt.webhook_secret = own.map(str::to_owned);
                Ok(submission)
            }
            CreatedBatch::TooManyWebhooks => Err(BatchError::TooManyPendingWebhooks {
                limit: self.config.webhooks.max_pending_per_tenant,
            }),
            CreatedBatch::Existing(batch) => {
                let purpose =
                    Purpose::from_existing(&batch, (context, &new.operation), stays_open)?;
                Ok(Submission::new(of, batch, purpose, digest))
            }
        }
    }

    /// Checks that the caller's tenant may search in the collection, with the embedder of this process. Returns the false
    /// accept rate of the collection.
    async fn check_search(
        &self,
        context: &RequestContext,
        plan: &BatchSearchPlan,
    ) -> Result<f64, BatchError> {
        if plan.image.scan.aligned && !context.principal.scopes.contains(&Scope::SearchVectors) {
            return Err(RecognitionError::AlignedCrops.into());
        }
        let collection = self.collections.of(context, plan.collection).await?;
        self.collections.check_search(&collection, &plan.search)?;
        let vector_space = &self.runner.pipeline.models.embedder.vector_space;
        if *vector_space != collection.vector_space {
            return Err(RecognitionError::CollectionVectorSpace {
                face: vector_space.clone(),
                collection: collection.vector_space,
            }
            .into());
        }
        Ok(collection.terms.far.min(self.collections.max_search_far))
    }

    /// Begins a submission that adds items to an open batch.
    ///
    /// # Errors
    /// Returns [`BatchError::NotFound`] if the tenant has no such batch, [`BatchError::NotOpen`] if it accepts no items,
    /// [`BatchError::OtherKey`] if it searches for another key, or an error of the database.
    pub async fn append(
        &self,
        context: &RequestContext,
        id: uuid::Uuid,
    ) -> Result<Submission<'_>, BatchError> {
        let batch = self.batch(&context.principal.tenant, id).await?;
        if batch.state != facescan_store::BatchState::Open {
            return Err(BatchError::NotOpen(id));
        }
        check_searcher(context, &batch)?;
        let of = (self, context);
        Ok(Submission::new(of, batch, Purpose::Add, Sha256::new()))
    }
}

impl<'a> Submission<'a> {
    fn new(
        (batches, context): (&'a Batches, &RequestContext),
        batch: Batch,
        purpose: Purpose,
        digest: Sha256,
    ) -> Self {
        let written_before = match purpose {
            Purpose::Create { .. } => batch.submitted,
            Purpose::Repeat => u64::MAX,
            Purpose::Add => 0,
        };
        Self {
            receipt: Receipt::new(batch.id),
            batches,
            context: context.clone(),
            batch,
            purpose,
            digest,
            pending: Vec::new(),
            pending_bytes: 0,
            pending_read: 0,
            written_before,
            written: HashSet::new(),
        }
    }

    /// Returns the batch, as it was when the submission began.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Returns whether no entry was read so far, for a batch that gets none later.
    pub fn lacks_items(&self) -> bool {
        let stays_open = matches!(self.purpose, Purpose::Create { stays_open: true });
        self.receipt.read == 0 && !stays_open && self.purpose != Purpose::Repeat
    }

    /// Takes the next entries, each with the reason if it could not be read.
    ///
    /// # Errors
    /// Returns an error if the entries so far cannot be written. An entry that is not valid is refused alone.
    pub async fn push(
        &mut self,
        entries: Vec<Result<ItemEntry, EntryError>>,
    ) -> Result<(), BatchError> {
        for (id, checked) in self.checked(entries).await? {
            self.add(id, checked).await?;
        }
        Ok(())
    }

    /// Checks entries and hashes their images, on the CPU pool if they have many bytes.
    async fn checked(
        &self,
        entries: Vec<Result<ItemEntry, EntryError>>,
    ) -> Result<Vec<(Option<String>, Result<CheckedEntry, EntryError>)>, PipelineError> {
        let bytes: usize = entries.iter().flatten().map(ItemEntry::size).sum();
        let limit = self.batches.config.limits.max_image_bytes;
        let intake = Arc::clone(&self.batches.runner.intake);
        let check = move || {
            let check = |entry: Result<ItemEntry, EntryError>| {
                let id = entry.as_ref().ok().and_then(|entry| entry.id.clone());
                (id, entry.and_then(|entry| entry.check(&intake, limit)))
            };
            entries.into_iter().map(check).collect()
        };
        if bytes <= SMALL_ENTRIES {
            return Ok(check());
        }
        let pool = &self.batches.runner.pipeline.pool;
        let tenant = Some(Arc::clone(&self.context.principal.tenant));
        Ok(pool.run_for(tenant, Stage::Begin, check).await?)
    }

    async fn add(
        &mut self,
        id: Option<String>,
        checked: Result<CheckedEntry, EntryError>,
    ) -> Result<(), BatchError> {
        let index = self.receipt.read;
        self.receipt.read += 1;
        digest::digest_entry(&mut self.digest, &checked);
        let item = match checked {
            Ok(item) => Some(item),
            Err(error) => {
                self.receipt.refuse(index, id, &error);
                None
            }
        };
        if index < self.written_before {
            return Ok(());
        }
        self.pending_read += 1;
        if let Some((item, payload)) = item {
            self.pending_bytes += payload.as_ref().map_or(0, |(_, bytes)| bytes.len());
            self.pending.push((item, payload));
        }
        let is_full = self.pending.len() >= self.batches.config.batches.chunk_size as usize
            || self.pending_bytes >= MAX_PENDING_BYTES;
        match is_full {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    /// Writes the pending items, with their images first.
    async fn flush(&mut self) -> Result<(), BatchError> {
        if self.pending_read == 0 {
            return Ok(());
        }
        let more = self.pending.len() as u64;
        self.batches.check_waiting(&self.batch.tenant, more).await?;
        let pending = mem::take(&mut self.pending);
        self.pending_bytes = 0;
        let owner = ObjectOwner {
            tenant: &self.batch.tenant,
            batch: self.batch.id,
        };
        let payloads = &self.batches.payloads;
        let (items, images): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
        if self.written.len() > MAX_REMEMBERED {
            self.written.clear();
        }
        let mut images: Vec<_> = images.into_iter().flatten().collect();
        let submitted: Vec<_> = images.iter().map(|(hash, _)| *hash).collect();
        images.retain(|(hash, _)| self.written.insert(*hash));
        stream::iter(images.into_iter().map(Ok::<_, BatchError>))
            .try_for_each_concurrent(WRITES_IN_FLIGHT, |(hash, bytes)| {
                async move { Ok(payloads.put(owner, ObjectKind::Input, &hash, bytes).await?) }
                    .boxed()
            })
            .await?;
        let read = mem::take(&mut self.pending_read);
        let (read, read_before) = match self.purpose {
            // Only one request at a time may write the entries of a batch.
            Purpose::Create { .. } => (read, Some(self.receipt.read - read)),
            Purpose::Repeat | Purpose::Add => (0, None),
        };
        let added = self.batches.store.add_items(NewItems {
            batch: self.batch.id,
            items: &items,
            read,
            read_before,
            now: self.batches.clock().now(),
        });
        let Some(AddedItems {
            accepted,
            duplicates,
        }) = added.await?
        else {
            return Err(self.why_not_added().await?);
        };
        self.receipt.accepted += accepted;
        self.receipt.duplicates += duplicates;
        self.record(&submitted, items.len()).await?;
        self.batches.queue.submitted();
        Ok(())
    }

    /// Records which images were submitted.
    async fn record(&self, hashes: &[ContentHash], items: usize) -> Result<(), BatchError> {
        let audit = &self.batches.audit;
        if audit.records(AuditLevel::All) {
            let event = AuditEvent::images("submit_images", hashes, items - hashes.len());
            let target = Some(self.batch.id.to_string());
            let event = AuditEvent { target, ..event };
            audit.record(&self.context, event).await?;
        }
        Ok(())
    }

    /// Returns why the database did not add items.
    async fn why_not_added(&self) -> Result<BatchError, BatchError> {
        let batch = self.newest_batch().await?;
        Ok(match batch.state {
            facescan_store::BatchState::Open => BatchError::Concurrent,
            _ => BatchError::NotOpen(batch.id),
        })
    }

    /// Ends the submission after its last entry.
    ///
    /// # Errors
    /// Returns [`BatchError::KeyReused`] if another request has used the idempotency key, or an error of the object store or
    /// the database.
    pub async fn finish(&mut self) -> Result<Submitted, BatchError> {
        let digest: ContentHash = mem::take(&mut self.digest).finalize().into();
        if self.purpose == Purpose::Repeat {
            return self.repeated(digest);
        }
        self.flush().await?;
        let batch = match self.purpose {
            Purpose::Create { stays_open } => {
                // A request that was interrupted and continued has also counted the entries before.
                self.receipt
                    .add_before(self.batch.accepted, self.written_before);
                let completed = self.batches.store.complete_request(CompleteRequest {
                    batch: self.batch.id,
                    digest,
                    receipt: serde_json::to_value(&self.receipt).map_err(PipelineError::from)?,
                    stays_open,
                    now: self.batches.clock().now(),
                });
                let completed = completed.await?;
                completed.ok_or(BatchError::NotFound(self.batch.id))?
            }
            Purpose::Repeat | Purpose::Add => self.newest_batch().await?,
        };
        Ok(Submitted {
            receipt: self.receipt.clone().in_state(batch.state),
            is_repeated: false,
        })
    }

    /// Returns the batch as it is now.
    async fn newest_batch(&self) -> Result<Batch, BatchError> {
        let batch = &self.batch;
        self.batches.batch(&batch.tenant, batch.id).await
    }

    /// Ends a submission that repeats another one.
    fn repeated(&self, digest: ContentHash) -> Result<Submitted, BatchError> {
        if self.batch.request_digest != Some(digest) {
            return Err(BatchError::KeyReused(self.batch.id));
        }
        let stored = self.batch.receipt.clone();
        let receipt: Option<Receipt> =
            stored.and_then(|stored| serde_json::from_value(stored).ok());
        Ok(Submitted {
            receipt: receipt
                .unwrap_or_else(|| self.receipt.clone())
                .in_state(self.batch.state),
            is_repeated: true,
        })
    }

    /// Ends a submission whose request failed. A batch that nobody can name or continue is deleted.
    pub async fn abandon(self, has_key: bool) {
        let is_lost = matches!(self.purpose, Purpose::Create { .. }) && !has_key;
        if is_lost && let Err(error) = self.batches.delete(&self.batch.tenant, self.batch.id).await
        {
            tracing::warn!(batch = %self.batch.id, %error, "an interrupted batch cannot be deleted now");
        }
    }
}
