//! Pages of items and of batches.

use std::sync::Arc;

use facescan_store::{BatchFilter, BatchPage, BatchStore};

use super::{new_batch, noon, submit};

/// A receipt can have a thousand refused entries, so lists of batches are without them.
pub async fn leave_receipts_out_of_lists(batches: &Arc<dyn BatchStore>) {
    let batch = submit(batches, new_batch("receipts", 10), 1).await;
    assert!(batch.receipt.is_some());
    let page = BatchPage {
        after: None,
        limit: 10,
    };
    let filter = BatchFilter::default();
    let listed = batches.list_batches("receipts", &filter, page).await;
    let listed = listed.unwrap();
    assert_eq!((listed[0].id, &listed[0].receipt), (batch.id, &None));
    batches
        .cancel_batch("receipts", batch.id, noon())
        .await
        .unwrap();
}
