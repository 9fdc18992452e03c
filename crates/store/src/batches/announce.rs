//! The outbox of a message queue: chunks that are ready and of which the queue was not told.

use time::OffsetDateTime;

use super::records::ReadyChunk;
use crate::call::{change, query};
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::micros;

crate::prepared::statements! {
    /// Every chunk has a batch. The outer join keeps Postgres from reading the batches first.
    const READY = "SELECT c.batch_id, c.number, c.lease_token, b.tenant, b.priority \
         FROM batch_chunks c LEFT JOIN batches b ON b.id = c.batch_id \
         WHERE c.ready_at <= :now AND (c.announced_at IS NULL OR c.announced_at <= :announced_before) \
         AND b.cancelled_at IS NULL AND b.deletion IS NULL \
         ORDER BY c.ready_at LIMIT :limit";

    /// A chunk that a worker has leased meanwhile is announced again when that lease ends.
    const MARK = "UPDATE batch_chunks SET announced_at = :now \
         WHERE batch_id = :batch AND number = :number AND lease_token = :token";
}

impl Store {
    /// Returns chunks that are ready and of which a message queue was not told, or not since `announced_before`. The oldest
    /// come first.
    pub async fn unannounced_chunks(
        &self,
        now: OffsetDateTime,
        announced_before: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<ReadyChunk>, StoreError> {
        query!(self, "unannounced_chunks", |connection| {
            let values = params!(
                now = micros(now),
                announced_before = micros(announced_before),
                limit
            );
            Ok(connection.fetch_all(READY, values).await?)
        })
    }

    /// Records that a message queue was told of chunks.
    pub async fn mark_announced(
        &self,
        chunks: &[ReadyChunk],
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        change!(self, "mark_announced", |connection| {
            let now = micros(now);
            for chunk in chunks {
                let (number, token) = (chunk.number, chunk.token);
                connection
                    .execute(MARK, params!(batch = chunk.batch, number, token, now))
                    .await?;
            }
            Ok(())
        })
    }
}
