//! A host that never answers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use facescan_pipeline::ingest::fetch::{FetchError, Fetcher};
use tokio::sync::Notify;
use url::Url;

/// A fetcher that never returns. It counts the fetches in work, and notifies when one starts and when one is dropped.
#[derive(Default)]
pub struct Silent {
    pub running: Arc<AtomicUsize>,
    pub asked: Notify,
    pub left: Arc<Notify>,
}

struct Fetching {
    running: Arc<AtomicUsize>,
    left: Arc<Notify>,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.left.notify_one();
    }
}

#[async_trait]
impl Fetcher for Silent {
    async fn fetch(&self, _: &Url, _: u64) -> Result<Bytes, FetchError> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _fetching = Fetching {
            running: Arc::clone(&self.running),
            left: Arc::clone(&self.left),
        };
        self.asked.notify_one();
        std::future::pending().await
    }
}
