//! The writer of scans. It saves those of concurrent calls together.

use super::check::check_scan;
use super::new_rows::ScanToSave;
use super::queues::SavedOrAlone;
use super::records::{NewScan, SavedScan};
use super::save::save_scans;
use super::save_new::{MAX_FACES, save_new};
use crate::call::change;
use crate::error::{SharedError, StoreError};
use crate::gathered::Waiting;
use crate::store::Store;

/// The most scans of one transaction. SQLite takes longer for each value the more there are.
const MAX_SCANS: usize = 32;

type WaitingScan = Waiting<Box<NewScan>, SavedOrAlone>;

impl Store {
    /// Saves the scan of one image, with its faces and embeddings.
    ///
    /// Concurrent calls are saved together, at the [turns](Store::with_turns) of the store: those of new images with one call of the
    /// database, and then the others in one transaction. If that fails because of one of them, or waits for a second for an image
    /// that is locked, each has a transaction of its own. A call that is dropped while it waits writes nothing; one that is dropped
    /// later can still write.
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
        let saved = self.scans_to_save().add((), scan, || {
            tokio::spawn(self.clone().save_waiting_scans());
        });
        match saved.await {
            Ok(SavedOrAlone::Ended(result)) => result,
            Ok(SavedOrAlone::Alone(scan)) => {
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
        let mut writer = self.scans_to_save().worker(());
        while let Some(group) = writer.next_group(self.turns(), for_one_transaction()).await {
            let scans = scans_of(&group);
            let new = change!(self, "save_new_scans", one, |connection| {
                save_new(connection, &scans).await
            });
            let new = match new {
                Ok(new) => new,
                Err(error) => {
                    reply_with(group, error);
                    continue;
                }
            };
            let mut rest = Vec::new();
            for it in group {
                let image_id = it.call.image.id;
                if new.contains(&image_id) {
                    it.reply(SavedOrAlone::Ended(Ok(SavedScan::Written { image_id })));
                } else {
                    rest.push(it);
                }
            }
            if !rest.is_empty() {
                self.save_others(rest).await;
            }
        }
    }

    /// Saves waiting scans whose images may be stored, or which have too many faces for one call.
    async fn save_others(&self, group: Vec<WaitingScan>) {
        let scans = scans_of(&group);
        let result = change!(self, "save_scans", |connection| {
            // The others do not wait as long as one whose image is locked.
            if scans.len() > 1 {
                connection.limit_lock_waits().await?;
            }
            save_scans(connection, &scans).await
        });
        match result {
            Ok(saved) => {
                for (it, saved) in group.into_iter().zip(saved) {
                    it.reply(SavedOrAlone::Ended(Ok(saved)));
                }
            }
            Err(error) => reply_with(group, error),
        }
    }
}

/// Lets scans into a group as long as they are few, and have few faces.
fn for_one_transaction() -> impl FnMut(&Box<NewScan>) -> bool {
    let (mut scans, mut faces) = (0, 0);
    move |scan| {
        scans += 1;
        faces += scan.faces.len();
        scans <= MAX_SCANS && faces <= MAX_FACES
    }
}

fn scans_of(group: &[WaitingScan]) -> Vec<ScanToSave<'_>> {
    let scans = group.iter().map(|it| ScanToSave::from_request(&it.call));
    scans.collect()
}

/// Replies after a transaction that failed.
fn reply_with(group: Vec<WaitingScan>, error: StoreError) {
    match SharedError::new(error) {
        Some(error) => group
            .into_iter()
            .for_each(|it| it.reply(SavedOrAlone::Ended(Err(error.get())))),
        None => group
            .into_iter()
            .for_each(|it| it.reply_with(SavedOrAlone::Alone)),
    }
}
