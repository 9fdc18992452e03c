//! Erasing what is stored about somebody, and deleting what has been kept long enough.
//!
//! An erasure has two parts. Rows and images are erased at once, so that no response has them. Later the files of the database
//! are purged, because a database keeps the bytes of deleted rows for a while. [`retention`] deletes old data.

pub mod host;
pub mod report;
pub mod retention;

use std::{collections::BTreeSet, time::Duration};

use facescan_audit::{AuditEvent, AuditLog};
use facescan_batches::{
    Batches,
    error::BatchError,
    payloads::{ObjectKind, ObjectOwner},
    results::file_hashes,
};
use facescan_pipeline::{
    context::RequestContext,
    core::image_file::{ContentHash, hex},
};
use facescan_store::{
    Erasure, ErasureTarget, ItemErasure, ItemToErase, NewErasure, Store, StoreError,
};
use facescan_telemetry::{
    metrics::labels::Sweep,
    sweeps::{Sweeps, sweep_failed},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The time between two sweeps.
const PERIOD: Duration = Duration::from_secs(5);

/// An erasure that was requested longer ago than this, and is not finished, was interrupted.
const INTERRUPTED: Duration = Duration::from_secs(120);

/// The images, items or batches that are read at a time.
const PAGE: u32 = 200;

/// Erases what is stored. Cheap to clone.
#[derive(Clone)]
pub struct Erasures {
    /// The erasures in the database.
    pub store: Store,
    /// Records who asked for an erasure.
    pub audit: AuditLog,
    /// The batches whose items and images are erased too.
    pub batches: Batches,
}

impl Erasures {
    /// Begins an erasure, which goes on in the background if the caller leaves. Returns the erasure when everything is erased,
    /// or as it is after `wait`. Returns `None` if the tenant has no such thing.
    ///
    /// # Errors
    /// Returns an error of the database or of the store of images. The sweeper tries again.
    pub async fn erase(
        &self,
        context: &RequestContext,
        target: ErasureTarget,
        wait: Duration,
    ) -> Result<Option<Erasure>, BatchError> {
        let tenant = context.principal.tenant.to_string();
        let id = self.batches.clock().new_id();
        let new = NewErasure {
            id,
            requested_at: self.batches.clock().now(),
            audit: self.audit.entry(context, erase_event(id, &target, &tenant)),
            tenant: tenant.clone(),
            target: target.clone(),
        };
        if !self.store.begin_erasure(&new).await? {
            return Ok(None);
        }
        let erasures = self.clone();
        let owner = tenant.clone();
        let work = tokio::spawn(async move { erasures.run(id, &owner, &target).await });
        if let Ok(Ok(outcome)) = tokio::time::timeout(wait, work).await {
            outcome?;
        }
        Ok(self.store.erasure(&tenant, id).await?)
    }

    /// Erases everything that a target includes. It is safe to run this again after an interruption.
    async fn run(&self, id: Uuid, tenant: &str, target: &ErasureTarget) -> Result<(), BatchError> {
        match target {
            ErasureTarget::Face(face) => self.store.erase_face(id, tenant, *face).await?,
            ErasureTarget::Batch(batch) => self.erase_batch(tenant, *batch).await?,
            ErasureTarget::Collection(_)
            | ErasureTarget::Subject(_)
            | ErasureTarget::Enrollment(_)
            | ErasureTarget::Person(_) => {
                self.erase_from_collections(id, tenant, target).await?;
            }
            ErasureTarget::Image(_) | ErasureTarget::Source(_) | ErasureTarget::Host(_) => {
                // The scans of an image find its items, so the items come first.
                self.erase_items(id, tenant, target).await?;
                self.erase_images(id, tenant, target).await?;
            }
            ErasureTarget::Tenant => {
                let mut after = Uuid::nil();
                while let Some(last) = self.erase_batches(tenant, after).await? {
                    after = last;
                }
                self.erase_images(id, tenant, target).await?;
                self.erase_from_collections(id, tenant, target).await?;
                self.store.erase_webhooks(tenant).await?;
            }
        }
        let now = self.batches.clock().now();
        self.store.end_erasure(id, now).await?;
        Ok(())
    }

    async fn erase_from_collections(
        &self,
        id: Uuid,
        tenant: &str,
        target: &ErasureTarget,
    ) -> Result<(), StoreError> {
        let store = &self.store;
        while !store.erase_from_collections(id, tenant, target).await? {}
        Ok(())
    }

    /// Erases a page of a tenant's batches. Returns the last one.
    async fn erase_batches(&self, tenant: &str, after: Uuid) -> Result<Option<Uuid>, BatchError> {
        let batches = self.store.batches_of_tenant(tenant, after, PAGE).await?;
        for batch in &batches {
            self.erase_batch(tenant, *batch).await?;
        }
        Ok(batches.last().copied())
    }

    async fn erase_batch(&self, tenant: &str, batch: Uuid) -> Result<(), BatchError> {
        // False if it was marked before an interruption.
        self.batches.store.delete_batch(tenant, batch).await?;
        self.batches.purge(tenant, batch).await
    }

    async fn erase_images(
        &self,
        id: Uuid,
        tenant: &str,
        target: &ErasureTarget,
    ) -> Result<(), BatchError> {
        let mut after = Uuid::nil();
        loop {
            let page = self.store.images_to_erase(tenant, target, after, PAGE);
            let page = page.await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.id;
            let included = page.iter().filter(|image| match target {
                ErasureTarget::Host(host) => host::is_at(image.source_url.as_deref(), host),
                _ => true,
            });
            let images: BTreeSet<Uuid> = included.map(|image| image.id).collect();
            let images: Vec<Uuid> = images.into_iter().collect();
            self.store.erase_images(id, tenant, &images).await?;
        }
    }

    async fn erase_items(
        &self,
        id: Uuid,
        tenant: &str,
        target: &ErasureTarget,
    ) -> Result<(), BatchError> {
        let mut after = Uuid::nil();
        loop {
            let batches = self.store.batches_of_tenant(tenant, after, PAGE).await?;
            let Some(&last) = batches.last() else {
                return Ok(());
            };
            after = last;
            for batch in batches {
                let owner = ObjectOwner { tenant, batch };
                self.erase_items_of(id, owner, target).await?;
            }
        }
    }

    async fn erase_items_of(
        &self,
        id: Uuid,
        owner: ObjectOwner<'_>,
        target: &ErasureTarget,
    ) -> Result<(), BatchError> {
        let mut after = None;
        loop {
            let page = self.store.items_to_erase(owner.batch, target, after, PAGE);
            let page = page.await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.position);
            let included = page.iter().filter(|item| match target {
                ErasureTarget::Host(host) => {
                    host::is_at(item.url.as_deref(), host)
                        || host::is_at(item.source_url.as_deref(), host)
                }
                _ => true,
            });
            let items: Vec<&ItemToErase> = included.collect();
            self.erase_page(id, owner, &items).await?;
        }
    }

    /// Erases items: first their files, so that an interruption leaves rows that name them.
    async fn erase_page(
        &self,
        id: Uuid,
        owner: ObjectOwner<'_>,
        items: &[&ItemToErase],
    ) -> Result<(), BatchError> {
        if items.is_empty() {
            return Ok(());
        }
        let positions: Vec<u64> = items.iter().map(|item| item.position).collect();
        let inputs: BTreeSet<ContentHash> = items.iter().filter_map(|item| item.payload).collect();
        let inputs: Vec<ContentHash> = inputs.into_iter().collect();
        let shared = self
            .store
            .shared_payloads(owner.batch, &positions, &inputs)
            .await?;
        let inputs: Vec<ContentHash> = inputs
            .into_iter()
            .filter(|hash| !shared.contains(hash))
            .collect();
        let results = items.iter().filter_map(|item| item.result.as_ref());
        let files = results.filter_map(Value::as_object).flat_map(file_hashes);
        let outputs: Vec<ContentHash> = files.flatten().collect();
        let payloads = &self.batches.payloads;
        payloads.delete(owner, ObjectKind::Input, &inputs).await?;
        payloads.delete(owner, ObjectKind::Output, &outputs).await?;
        let erasure = ItemErasure {
            erasure: id,
            batch: owner.batch,
            positions: &positions,
            payloads: (inputs.len() + outputs.len()) as u64,
            now: self.batches.clock().now(),
        };
        Ok(self.store.erase_items(erasure).await?)
    }

    /// Sweeps until `stop` is cancelled.
    pub async fn sweep_until(&self, stop: CancellationToken) {
        let mut sweeps = Sweeps::new(Sweep::Erasures, PERIOD, stop, self.batches.metrics());
        while sweeps.next().await {
            sweeps.record(self.sweep().await);
        }
    }

    /// Sweeps once: continues interrupted erasures, and purges the files of the database if it is time. An erasure that
    /// fails does not hold up the others.
    ///
    /// # Errors
    /// Returns an error of the database. The next sweep tries again.
    pub async fn sweep(&self) -> Result<(), BatchError> {
        let now = self.batches.clock().now();
        let unfinished = self.store.unfinished_erasures(now - INTERRUPTED, PAGE);
        for erasure in unfinished.await? {
            let id = erasure.id;
            let Some(target) = erasure.unfinished_target() else {
                tracing::error!(erasure = %id, "the row of an erasure is damaged");
                continue;
            };
            if let Err(error) = self.run(id, &erasure.tenant, &target).await {
                tracing::warn!(erasure = %id, "an erasure is not finished");
                sweep_failed(self.batches.metrics(), Sweep::Erasures, &error);
            }
        }
        let purge_after = self.batches.config.retention.purge_after();
        if self.store.has_unpurged_erasures(now - purge_after).await? {
            self.store.purge_erased(now).await?;
        }
        Ok(())
    }
}

/// Returns the event of an erasure. It has no source and no host, because both can be names.
fn erase_event(id: Uuid, target: &ErasureTarget, tenant: &str) -> AuditEvent {
    let value = target.value(tenant);
    let value = match target {
        ErasureTarget::Source(_) | ErasureTarget::Host(_) => digest_of(&value),
        _ => value,
    };
    AuditEvent::change("erase", value).with(json!({"kind": target.kind(), "erasure": id}))
}

/// Returns the sha256 of a text in hex.
fn digest_of(text: &str) -> String {
    hex(&Sha256::digest(text))
}
