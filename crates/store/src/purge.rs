//! Making the files of the database give up the bytes of deleted rows.

use std::time::Duration;

use time::OffsetDateTime;

use crate::call::{change, query};
use crate::connection::Connection;
use crate::dialect::FilePurge;
use crate::error::StoreError;
use crate::parameters::params;
use crate::schema;
use crate::store::Store;
use crate::times::micros;

crate::prepared::statements! {
    const UNPURGED = "SELECT min(erased_at) AS oldest FROM \
         (SELECT min(erased_at) AS erased_at FROM erasures WHERE purged_at IS NULL \
         UNION ALL SELECT min(committed_by) FROM unpurged_deletions) unpurged";

    /// An erasure that ended while the files were purged waits for the next time.
    const PURGED =
        "UPDATE erasures SET purged_at = :now WHERE purged_at IS NULL AND erased_at <= :now";

    const PURGED_DELETIONS = "DELETE FROM unpurged_deletions WHERE committed_by <= :now";

    const DELETED =
        "INSERT INTO unpurged_deletions (committed_by) VALUES (:committed_by) ON CONFLICT DO NOTHING";
}

impl Store {
    /// Makes the files of the database give up erased rows, and records it for every erasure that ended before. Returns false
    /// if other connections prevent it now.
    ///
    /// SQLite overwrites deleted rows, so its write-ahead log is written back and emptied. Postgres frees the space of the
    /// rows (VACUUM), and later rows overwrite it.
    pub async fn purge_erased(&self, now: OffsetDateTime) -> Result<bool, StoreError> {
        self.purge(FilePurge::Free, now).await
    }

    /// Does the same as [`purge_erased`](Self::purge_erased), and leaves no byte of an erased row in the files: Postgres writes
    /// its tables to new files (VACUUM FULL).
    ///
    /// Nobody can use a table meanwhile, which takes minutes for millions of rows.
    pub async fn rewrite_erased(&self, now: OffsetDateTime) -> Result<bool, StoreError> {
        self.purge(FilePurge::Rewrite, now).await
    }

    async fn purge(&self, purge: FilePurge, now: OffsetDateTime) -> Result<bool, StoreError> {
        let files = Box::pin(async {
            let mut acquired = self.writer().await?;
            let result = async {
                let connection = &mut acquired.connection();
                schema::check(connection).await?;
                Ok(connection.purge_files(purge).await?)
            };
            let result = result.await;
            acquired.finish();
            result
        });
        if !self.observe_without_limit("purge_files", files).await? {
            return Ok(false);
        }
        change!(self, "purge_erased", |connection| {
            let now = params!(now = micros(now));
            connection.execute(PURGED, now).await?;
            connection.execute(PURGED_DELETIONS, now).await?;
            Ok(())
        })?;
        Ok(true)
    }

    /// Returns whether the files of the database may still have rows that were erased, or deleted because they were old, before
    /// `erased_before`.
    pub async fn has_unpurged_erasures(
        &self,
        erased_before: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        query!(self, "has_unpurged_erasures", |connection| {
            let oldest: Option<i64> = connection.fetch_one(UNPURGED, params!()).await?;
            Ok(oldest.is_some_and(|oldest| oldest <= micros(erased_before)))
        })
    }
}

/// The longest time from the time of a deletion until its transaction has ended.
const COMMIT: Duration = Duration::from_secs(60);

/// Notes that rows were deleted without an erasure, so that the files of the database are purged. Run it in the transaction
/// that deletes them.
pub(crate) async fn note_deletion(
    connection: &mut Connection<'_>,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    let committed_by = micros(now + COMMIT);
    connection.execute(DELETED, params!(committed_by)).await?;
    Ok(())
}
