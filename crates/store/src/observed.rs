//! Measures every call of a store, and warns about calls that fail.

use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use facescan_clock::Clock;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    CachedScan, ConnectionCounts, ImageFilter, ImageSummary, Model, NewScan, PageRequest,
    SavedScan, Source, Store, StoreError, StoredFace, StoredImage,
};

/// Receives the time and the outcome of each call.
pub trait StoreMetrics: Send + Sync {
    /// A call ended. `outcome` is `ok`, `unavailable` or `error`.
    fn called(&self, call: &'static str, outcome: &'static str, elapsed: Duration);
}

/// A store that reports the calls of another one.
pub struct ObservedStore {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<dyn StoreMetrics>,
    was_unavailable: AtomicBool,
}

impl ObservedStore {
    /// Reports the calls of `store`.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: Arc<dyn StoreMetrics>,
    ) -> Self {
        Self {
            store,
            clock,
            metrics,
            was_unavailable: AtomicBool::new(false),
        }
    }

    async fn observe<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let started_at = self.clock.monotonic();
        let result = call.await;
        let elapsed = self.clock.monotonic().saturating_sub(started_at);
        let outcome = match &result {
            Ok(_) => "ok",
            Err(error) if error.is_unavailable() => "unavailable",
            Err(_) => "error",
        };
        self.metrics.called(method, outcome, elapsed);
        match &result {
            Ok(_) => {
                if self.was_unavailable.swap(false, Ordering::Relaxed) {
                    tracing::info!(call = method, "the database answers again");
                }
            }
            Err(error) => {
                let cause = error.source().map(ToString::to_string).unwrap_or_default();
                // Warns about each failed call, so that the log of every request id has the cause.
                tracing::warn!(call = method, %error, cause, "a store call failed");
                self.was_unavailable
                    .fetch_or(error.is_unavailable(), Ordering::Relaxed);
            }
        }
        result
    }
}

#[async_trait]
impl Store for ObservedStore {
    async fn migrate(&self) -> Result<(), StoreError> {
        self.observe("migrate", self.store.migrate()).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.observe("ping", self.store.ping()).await
    }

    async fn register_models(
        &self,
        models: &[Model],
        first_seen: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let call = self.store.register_models(models, first_seen);
        self.observe("register_models", call).await
    }

    async fn save_scan(&self, scan: NewScan) -> Result<SavedScan, StoreError> {
        self.observe("save_scan", self.store.save_scan(scan)).await
    }

    async fn find_scan(
        &self,
        tenant: &str,
        sha256: &[u8; 32],
        scan_key: &[u8; 32],
    ) -> Result<Option<CachedScan>, StoreError> {
        let call = self.store.find_scan(tenant, sha256, scan_key);
        self.observe("find_scan", call).await
    }

    async fn cached_scan_ids(
        &self,
        tenant: &str,
        scan_key: &[u8; 32],
        sha256s: &[[u8; 32]],
    ) -> Result<Vec<([u8; 32], Uuid)>, StoreError> {
        let call = self.store.cached_scan_ids(tenant, scan_key, sha256s);
        self.observe("cached_scan_ids", call).await
    }

    async fn scans(&self, tenant: &str, ids: &[Uuid]) -> Result<Vec<CachedScan>, StoreError> {
        self.observe("scans", self.store.scans(tenant, ids)).await
    }

    async fn keep_scan(&self, scan: Uuid) -> Result<(), StoreError> {
        self.observe("keep_scan", self.store.keep_scan(scan)).await
    }

    async fn add_source(
        &self,
        tenant: &str,
        image_id: Uuid,
        source: &Source,
    ) -> Result<bool, StoreError> {
        let call = self.store.add_source(tenant, image_id, source);
        self.observe("add_source", call).await
    }

    async fn image(&self, tenant: &str, id: Uuid) -> Result<Option<StoredImage>, StoreError> {
        self.observe("image", self.store.image(tenant, id)).await
    }

    async fn face(&self, tenant: &str, id: Uuid) -> Result<Option<StoredFace>, StoreError> {
        self.observe("face", self.store.face(tenant, id)).await
    }

    async fn list_images(
        &self,
        tenant: &str,
        filter: &ImageFilter,
        page: PageRequest,
    ) -> Result<Vec<ImageSummary>, StoreError> {
        let call = self.store.list_images(tenant, filter, page);
        self.observe("list_images", call).await
    }

    async fn delete_image(&self, tenant: &str, id: Uuid) -> Result<bool, StoreError> {
        let call = self.store.delete_image(tenant, id);
        self.observe("delete_image", call).await
    }

    async fn delete_face(&self, tenant: &str, id: Uuid) -> Result<bool, StoreError> {
        let call = self.store.delete_face(tenant, id);
        self.observe("delete_face", call).await
    }

    fn connections(&self) -> ConnectionCounts {
        self.store.connections()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
