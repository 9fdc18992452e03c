//! The writer of scans. It saves those of concurrent calls in one transaction.

use std::io;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::check::check_scan;
use super::queue::{Reply, WaitingScan};
use super::records::{NewScan, SavedScan};
use super::save::{ScanToSave, save_scans};
use crate::call::change;
use crate::error::StoreError;
use crate::store::Store;

impl Store {
    /// Saves the scan of one image, with its faces and embeddings.
    ///
    /// Concurrent calls are saved in one transaction. If it fails because of one of them, or waits for a second for an image that is
    /// locked, each has a transaction of its own. A call that is dropped while it waits writes nothing; one that is dropped later
    /// can still write.
    ///
    /// If the tenant already has an image with this SHA-256, the scan is added to that image, and so is the source.
    ///
    /// If that image already has a scan with this key, and that scan can be returned from the cache, the call returns it
    /// and writes nothing. Otherwise the new scan replaces it.
    ///
    /// Calls for the same image wait for each other. When two calls save the same scan at once, one writes it and the
    /// other returns it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] when a value cannot be stored. The message names the field.
    pub async fn save_scan(&self, scan: NewScan) -> Result<SavedScan, StoreError> {
        check_scan(&scan)?;
        self.observe("save_scan", Box::pin(self.save_with_others(Box::new(scan))))
            .await
    }

    async fn save_with_others(&self, scan: Box<NewScan>) -> Result<SavedScan, StoreError> {
        let (reply, replied) = oneshot::channel();
        if self.scan_queue().add(WaitingScan { scan, reply }) {
            tokio::spawn(self.clone().save_waiting_scans());
        }
        match replied.await {
            Ok(Reply::Ended(result)) => result,
            Ok(Reply::Alone(scan)) => {
                change!(self, "save_one_scan", |connection| {
                    let scan = ScanToSave::from_request(&scan);
                    let saved = save_scans(connection, &[scan]).await?;
                    let saved = saved.into_iter().next();
                    saved.ok_or(StoreError::Refused(sqlx::Error::RowNotFound))
                })
            }
            // The runtime ends.
            Err(_) => Err(StoreError::Unavailable(sqlx::Error::WorkerCrashed)),
        }
    }

    async fn save_waiting_scans(self) {
        let mut writing = self.scan_queue().writing();
        while let Some(group) = writing.next_group() {
            let scans: Vec<ScanToSave<'_>> = group
                .iter()
                .map(|it| ScanToSave::from_request(&it.scan))
                .collect();
            let result = change!(self, "save_scans", |connection| {
                // The others do not wait as long as one whose image is locked.
                if scans.len() > 1 {
                    connection.limit_lock_waits().await?;
                }
                save_scans(connection, &scans).await
            });
            reply_to(group, result);
        }
    }
}

fn reply_to(group: Vec<WaitingScan>, result: Result<Vec<SavedScan>, StoreError>) {
    // A caller that no longer waits gets no reply.
    let reply = |it: WaitingScan, reply| it.reply.send(reply).ok();
    match result {
        Ok(saved) => {
            for (it, saved) in group.into_iter().zip(saved) {
                reply(it, Reply::Ended(Ok(saved)));
            }
        }
        Err(StoreError::Unavailable(error)) if !matches!(error, sqlx::Error::Database(_)) => {
            let error = Arc::new(error);
            for it in group {
                reply(it, Reply::Ended(Err(unavailable(&error))));
            }
        }
        Err(_) => {
            for WaitingScan { scan, reply } in group {
                reply.send(Reply::Alone(scan)).ok();
            }
        }
    }
}

/// The error of a transaction, for one of its calls.
fn unavailable(error: &Arc<sqlx::Error>) -> StoreError {
    StoreError::Unavailable(sqlx::Error::Io(io::Error::other(Arc::clone(error))))
}
