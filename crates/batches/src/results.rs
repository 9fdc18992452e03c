//! The results of a batch: its items, each with the response of its operation.
//!
//! [`Batches::items`] loads the rows of a page, which [`StoredItems::into_page`] converts to responses. That and writing them
//! is CPU work, which belongs on a thread of its own.

mod files;
mod response;

use std::collections::HashMap;

use facescan_recognition::collections::candidates::{FoundCandidates, StoredSearch};
use facescan_store::{Batch, CollectionKey, Item, ItemFilter, ItemPage, ItemState};
use serde_json::Value;
use uuid::Uuid;

use self::response::{Scans, StoredResult};
pub use self::{
    files::{FilesResult, file_hashes},
    response::{
        ItemErrorResponse, ItemResponse, ItemsPage, ResultFormat, ResultResponse, StoredItems,
    },
};
use super::{
    Batches,
    error::BatchError,
    operation::BatchPlan,
    payloads::{ObjectKind, ObjectOwner, PayloadError},
};

/// A page ends before its results, or after its images, have more than about so many bytes. Each is counted alone.
pub const MAX_PAGE_BYTES: u64 = 16 << 20;

impl Batches {
    /// Loads one page of the items of a batch. It can end early by the bytes of its results or of its images.
    pub async fn items(
        &self,
        batch: &Batch,
        state: Option<ItemState>,
        page: ItemPage,
        format: ResultFormat,
    ) -> Result<StoredItems, BatchError> {
        let filter = ItemFilter { state };
        let mut list = self.store.list_items(batch.id, filter, page).await?;
        let plan = self.stored_plan(batch)?;
        let scans = self.scans_of(batch, &list.items).await?;
        let mut searches = self.searches_of((batch, &plan), &mut list.items).await?;
        let mut items = Vec::with_capacity(list.items.len());
        let mut rows = list.items.into_iter();
        let mut bytes: u64 = 0;
        while bytes <= page.max_bytes
            && let Some(mut item) = rows.next()
        {
            let result = match (item.result.scan_id, item.result.result.take()) {
                (Some(id), _) => Some(StoredResult::Scan(id)),
                (None, Some(Value::Object(fields))) => {
                    let result = self.with_files(batch, fields, format).await?;
                    bytes = bytes.saturating_add(result.bytes());
                    Some(StoredResult::Files(result))
                }
                (None, _) => {
                    let found = searches.remove(&item.position);
                    found.map(|found| StoredResult::Search(Box::new(found)))
                }
            };
            items.push((item, result));
        }
        let has_more = list.has_more || rows.len() > 0;
        let last = items.last().map(|(item, _)| item.position);
        Ok(StoredItems {
            items,
            scans,
            plan,
            format,
            next: last.filter(|_| has_more),
        })
    }

    /// Resolves the options of a batch as they were stored.
    fn stored_plan(&self, batch: &Batch) -> Result<BatchPlan, BatchError> {
        let pipeline = &self.runner.pipeline;
        let plan =
            BatchPlan::from_stored(&batch.operation, &batch.options, &self.config, pipeline)?;
        Ok(plan)
    }

    /// Returns the scans of some items by their ids. Several items can have the same scan.
    async fn scans_of(&self, batch: &Batch, items: &[Item]) -> Result<Scans, BatchError> {
        let mut uses: HashMap<Uuid, usize> = HashMap::new();
        for id in items.iter().filter_map(|item| item.result.scan_id) {
            *uses.entry(id).or_default() += 1;
        }
        let ids: Vec<_> = uses.keys().copied().collect();
        let store = &self.runner.store;
        let found = store.scans(&batch.tenant, &ids).await?;
        let found = found.into_iter().map(|found| (found.scan.id, found));
        Ok(Scans {
            found: found.collect(),
            uses,
        })
    }

    /// Takes the results of searches from some items, and returns them by the positions of the items.
    async fn searches_of(
        &self,
        (batch, plan): (&Batch, &BatchPlan),
        items: &mut [Item],
    ) -> Result<HashMap<u64, FoundCandidates>, BatchError> {
        let Some(plan) = plan.search() else {
            return Ok(HashMap::new());
        };
        let key = CollectionKey {
            tenant: &batch.tenant,
            id: plan.collection,
        };
        let stored = items.iter_mut().filter_map(|item| {
            let result = item.result.result.take()?;
            // `None` if another version wrote other fields.
            let search: StoredSearch = serde_json::from_value(result).ok()?;
            Some((item.position, search))
        });
        let (positions, stored): (Vec<u64>, Vec<StoredSearch>) = stored.unzip();
        let found = self.collections.restore(key, stored).await?;
        Ok(positions.into_iter().zip(found).collect())
    }

    /// Loads the files of a stored result.
    async fn with_files(
        &self,
        batch: &Batch,
        fields: serde_json::Map<String, Value>,
        format: ResultFormat,
    ) -> Result<FilesResult, BatchError> {
        let owner = ObjectOwner {
            tenant: &batch.tenant,
            batch: batch.id,
        };
        let mut files = Vec::new();
        for hash in file_hashes(&fields) {
            let file = match hash.filter(|_| !format.without_data) {
                None => None,
                Some(hash) => match self.payloads.get(owner, ObjectKind::Output, &hash).await {
                    Ok(file) => Some(file),
                    Err(PayloadError::Missing) => None,
                    Err(error) => return Err(error.into()),
                },
            };
            files.push(file);
        }
        Ok(FilesResult::new(fields, files))
    }
}
